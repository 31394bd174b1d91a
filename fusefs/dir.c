/* SPDX-License-Identifier: MIT */
/*
 * Reading directories: the backing's getdents64(2), offsets passed through.
 *
 * An offset that the kernel gives back is the backing's own d_off, so a directory can be read on
 * after any amount of making and removing, and after a seek, as well as the backing can. Entries
 * are buffered per handle; the buffer is thrown away whenever the kernel goes on anywhere else than
 * where we stopped.
 */
#include "fusefs/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FS_DIR_BUFFER (32u << 10)

/* One open directory. The kernel may read one handle from several threads. */
struct fs_dir {
	struct lock lock;
	int fd;                                 /* [I] */
	off_t off;                              /* [lock] of the entry at pos */
	size_t pos;                             /* [lock] */
	size_t filled;                          /* [lock] */
	_Alignas(8) char buffer[FS_DIR_BUFFER]; /* [lock] */
};

struct linux_dirent64 {
	uint64_t d_ino;
	int64_t d_off; /* of the next entry */
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};

static struct fs_dir *dir_of_handle(struct fuse_file_info *fi)
{
	return (struct fs_dir *)(uintptr_t)fi->fh;
}

static void dir_free(struct fs_dir *dir)
{
	close(dir->fd);
	lock_fini(&dir->lock);
	free(dir);
}

void fs_do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, opendir);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	_cleanup_close_ int fd =
		inode ? fs_inode_reopen(op.fs, inode, O_RDONLY | O_DIRECTORY) : -ESTALE;

	if (fd < 0) {
		fs_op_reply_err(&op, fd);
		return;
	}
	struct fs_dir *dir = malloc(sizeof(*dir));
	if (!dir) {
		fs_op_reply_err(&op, ENOMEM);
		return;
	}
	lock_init(&dir->lock);
	dir->fd = take_fd(&fd);
	dir->off = 0;
	dir->pos = dir->filled = 0;
	fi->fh = (uintptr_t)dir;
	if (fuse_reply_open(req, fi) != 0)
		dir_free(dir); /* interrupted: no release will come */
}

void fs_do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, releasedir);
	dir_free(dir_of_handle(fi));
	fs_op_reply_err(&op, 0);
}

void fs_do_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, fsyncdir);
	int fd = dir_of_handle(fi)->fd;
	int r = datasync ? fdatasync(fd) : fsync(fd);

	fs_op_reply_err(&op, r < 0 ? errno : 0);
}

/* Makes the next entry to be read the one at @off. */
static int dir_seek_locked(struct fs_dir *dir, off_t off)
{
	lock_assert_held(&dir->lock);
	/* From the start always anew: rewinddir(3) shows what has been made since. */
	if (off == dir->off && off != 0)
		return 0;
	if (lseek(dir->fd, off, SEEK_SET) < 0)
		return -errno;
	dir->off = off;
	dir->pos = dir->filled = 0;
	return 0;
}

/* The next entry without stepping over it; NULL at the end. */
static int dir_peek_locked(struct fs_dir *dir, struct linux_dirent64 **ret_entry)
{
	lock_assert_held(&dir->lock);
	*ret_entry = NULL;
	if (dir->pos == dir->filled) {
		long n = syscall(SYS_getdents64, dir->fd, dir->buffer, sizeof(dir->buffer));
		if (n < 0)
			return errno == ENOENT ? 0 : -errno; /* the directory itself was removed */
		dir->pos = 0;
		dir->filled = (size_t)n;
		if (n == 0)
			return 0;
	}
	*ret_entry = (struct linux_dirent64 *)(void *)(dir->buffer + dir->pos);
	return 0;
}

static void dir_step_locked(struct fs_dir *dir, const struct linux_dirent64 *entry)
{
	lock_assert_held(&dir->lock);
	dir->pos += entry->d_reclen;
	dir->off = entry->d_off;
}

/* ---- filling a reply ---- */

/* One reply being filled; remembers which inodes it counts a lookup of. */
struct listing {
	struct fs *fs;
	fuse_req_t req;
	struct fs_inode *inode; /* the directory */
	struct fs_dir *dir;
	bool plus;
	char *buffer;
	size_t size, used;
	struct fs_inode **looked_up;
	size_t nr_looked_up;
};

static void listing_fini(struct listing *listing)
{
	free(listing->buffer);
	free(listing->looked_up);
}

static size_t entry_size(const struct listing *listing, const char *name)
{
	if (listing->plus)
		return fuse_add_direntry_plus(listing->req, NULL, 0, name, NULL, 0);
	return fuse_add_direntry(listing->req, NULL, 0, name, NULL, 0);
}

static int listing_init(struct listing *listing, size_t size)
{
	listing->size = size;
	listing->buffer = malloc(size > 0 ? size : 1);
	if (listing->plus)
		listing->looked_up =
			calloc(size / entry_size(listing, "") + 1, sizeof(struct fs_inode *));
	return listing->buffer && (!listing->plus || listing->looked_up) ? 0 : -ENOMEM;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Fills @ret_entry with a lookup counted. Without one (node id 0) the kernel takes the name and the
 * type alone: for "." and
 * "..", for what was removed since, and for what cannot be looked up and will say so when asked for
 * by name. */
static void listing_lookup(struct listing *listing, const char *name,
			   struct fuse_entry_param *ret_entry)
{
	struct fs_inode *child;

	if (is_dot(name) || fs_name_lookup(listing->fs, listing->dir->fd, name, &child) < 0)
		return;
	if (fs_inode_entry(listing->fs, child, ret_entry) < 0) {
		fs_inode_forget(listing->fs, child, 1);
		return;
	}
	listing->looked_up[listing->nr_looked_up++] = child;
}

static void listing_add(struct listing *listing, const struct linux_dirent64 *entry)
{
	struct fuse_entry_param param = {0};
	char *at = listing->buffer + listing->used;
	size_t room = listing->size - listing->used;
	const char *name = entry->d_name;

	param.attr.st_ino = entry->d_ino;
	param.attr.st_mode = DTTOIF(entry->d_type);
	/* What lies above our root is nobody's business. */
	if (listing->inode->nodeid == FUSE_ROOT_ID && strcmp(name, "..") == 0)
		param.attr.st_ino = listing->inode->ino;
	if (listing->plus) {
		listing_lookup(listing, name, &param);
		listing->used +=
			fuse_add_direntry_plus(listing->req, at, room, name, &param, entry->d_off);
	} else {
		listing->used +=
			fuse_add_direntry(listing->req, at, room, name, &param.attr, entry->d_off);
	}
}

static int listing_fill(struct listing *listing, off_t off)
{
	LOCK_SCOPE(&listing->dir->lock);
	int r = dir_seek_locked(listing->dir, off);

	while (r == 0) {
		struct linux_dirent64 *entry;
		r = dir_peek_locked(listing->dir, &entry);
		if (r < 0 || !entry)
			break;
		bool hidden = listing->inode->nodeid == FUSE_ROOT_ID &&
			      strcmp(entry->d_name, FS_PRIVATE_DIR) == 0;
		if (!hidden) {
			if (entry_size(listing, entry->d_name) > listing->size - listing->used)
				break;
			listing_add(listing, entry);
		}
		dir_step_locked(listing->dir, entry);
	}
	/* What has been read is handed out; the error comes up again with the next call. */
	return listing->used > 0 ? 0 : r;
}

static void list(struct fs_op *op, fuse_ino_t ino, size_t size, off_t off, bool plus,
		 struct fuse_file_info *fi)
{
	_cleanup_(listing_fini) struct listing listing = {
		.fs = op->fs,
		.req = op->req,
		.inode = fs_inode_get(op->fs, ino),
		.dir = dir_of_handle(fi),
		.plus = plus,
	};
	int r = listing.inode ? listing_init(&listing, size) : -ESTALE;

	if (r == 0)
		r = listing_fill(&listing, off);
	if (r < 0) {
		fs_op_reply_err(op, r);
		return;
	}
	op->bytes = listing.used;
	if (fuse_reply_buf(op->req, listing.buffer, listing.used) == 0)
		return;
	for (size_t i = 0; i < listing.nr_looked_up; i++)
		fs_inode_forget(op->fs, listing.looked_up[i], 1);
}

void fs_do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, readdir);
	list(&op, ino, size, off, false, fi);
}

void fs_do_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, readdirplus);
	list(&op, ino, size, off, true, fi);
}
