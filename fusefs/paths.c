/* SPDX-License-Identifier: MIT */
/*
 * Closing and reopening descriptors of inodes that have no file handle: by directory and name.
 *
 * A daemon that is not root may not open by handle, yet must not need a descriptor for each file
 *the kernel has ever seen. So when there are too many, the oldest idle one is asked where it is
 *(/proc knows), and the inode remembers its directory's inode and its name there until it has a
 *descriptor again:
 *
 *	descriptor open, no name --fs_paths_reclaim()--> name, the directory held
 *	            ^                                              |
 *	            +---------------- fs_path_open() --------------+
 *
 * Why such a name is never wrong: whoever renames or removes looks the name up first, which gives
 *the inode its descriptor back and makes it forget the name; and a directory above that is renamed
 *is still the same inode. What is opened is compared with what was closed all the same.
 */
#include "fusefs/inodes.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many are closed by one release that finds too many open. */
#define FS_RECLAIM_BATCH 4

/* ---- closing ---- */

struct whereabouts {
	uint64_t dir_ino;
	char name[NAME_MAX + 1];
};

/* Never into a mount: ours could lie there. */
static int open_dir_below(int backing_fd, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
	};
	long fd = syscall(SYS_openat2, backing_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* Splits what /proc says of @fd into @dir, relative to the backing, and a name. */
static int read_path(struct fs *fs, int fd, char dir[PATH_MAX], char name[NAME_MAX + 1])
{
	size_t prefix = strlen(fs->inodes->path);
	ssize_t len = readlink(fs_fd_path(fd).text, dir, PATH_MAX);

	if (len < 0 || len == PATH_MAX)
		return -ENAMETOOLONG;
	dir[len] = '\0';
	if (strncmp(dir, fs->inodes->path, prefix) != 0 || dir[prefix] != '/')
		return -ENOENT;
	char *last = strrchr(dir, '/') + 1;
	if (*last == '\0' || strlen(last) > NAME_MAX)
		return -ENOENT;
	strcpy(name, last);
	last[-1] = '\0';
	if (dir + prefix < last - 1)
		memmove(dir, dir + prefix + 1, strlen(dir + prefix + 1) + 1);
	else
		strcpy(dir, ".");
	return 0;
}

static int find_out(struct fs *fs, const struct fs_inode *inode, struct whereabouts *ret_where)
{
	char path[PATH_MAX];
	struct stat st;
	int r = read_path(fs, inode->fd, path, ret_where->name);

	if (r < 0)
		return r;
	_cleanup_close_ int dir = open_dir_below(fs->backing_fd, path);
	if (dir < 0)
		return dir;
	if (fstat(dir, &st) < 0)
		return -errno;
	ret_where->dir_ino = st.st_ino;
	if (fstatat(dir, ret_where->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return st.st_ino == inode->ino && st.st_dev == fs->backing_dev ? 0 : -ENOENT;
}

/* The oldest idle one, pinned; NULL when there are not too many. */
static struct fs_inode *pin_oldest(struct fs_inodes *table, uint64_t *ret_pins)
{
	LOCK_SCOPE(&table->lock);
	if (table->nr_fds <= table->fd_limit || list_is_empty(&table->idle))
		return NULL;
	struct fs_inode *inode = list_first(&table->idle, struct fs_inode, fd_link);
	fs_fd_pin_locked(table, inode);
	*ret_pins = inode->fd_pins;
	return inode;
}

/* Remembers where @inode is, unless that may have changed since @pins. Returns its descriptor, to
 * be closed, or -1. */
static int exchange_locked(struct fs_inodes *table, struct fs_inode *inode, uint64_t pins,
			   const struct whereabouts *where)
{
	struct fs_inode *dir = fs_inodes_find_locked(table, fs_nodeid_of(table, where->dir_ino));

	if (!dir || inode->fd_pins != pins || inode->fd_kept)
		return -1;
	inode->name = strdup(where->name);
	if (!inode->name)
		return -1;
	inode->dir = dir;
	dir->holds++;
	table->nr_fds--;
	return take_fd(&inode->fd);
}

static void put_away(struct fs *fs, struct fs_inode *inode, uint64_t pins)
{
	struct fs_inodes *table = fs->inodes;
	struct whereabouts where;
	struct list dropped;
	_cleanup_close_ int victim = -1;
	int r = find_out(fs, inode, &where);

	list_init(&dropped);
	lock_take(&table->lock);
	assert(inode->fd_users > 0);
	inode->fd_users--;
	if (r == 0)
		victim = exchange_locked(table, inode, pins, &where);
	else
		inode->fd_kept =
			true; /* opened by a name that is gone, say: it is not asked again */
	fs_fd_idle_locked(table, inode);
	fs_inode_drop_locked(table, inode, &dropped);
	lock_release(&table->lock);
	fs_inodes_free_dropped(&dropped);
}

void fs_paths_reclaim(struct fs *fs)
{
	uint64_t pins;

	if (fs->inodes->handles)
		return;
	for (unsigned i = 0; i < FS_RECLAIM_BATCH; i++) {
		struct fs_inode *inode = pin_oldest(fs->inodes, &pins);
		if (!inode)
			return;
		put_away(fs, inode, pins);
	}
}

/* ---- opening again ---- */

void fs_path_forget_locked(struct fs_inodes *table, struct fs_inode *inode, struct list *dropped)
{
	struct fs_inode *dir = take_ptr(inode->dir);

	lock_assert_held(&table->lock);
	if (!dir)
		return;
	free(take_ptr(inode->name));
	assert(dir->holds > 0);
	dir->holds--;
	fs_inode_drop_locked(table, dir, dropped);
}

/* Where it was closed, the directory held. -EAGAIN: it has a descriptor. */
static int recall(struct fs_inodes *table, struct fs_inode *inode, struct fs_inode **ret_dir,
		  char name[NAME_MAX + 1])
{
	LOCK_SCOPE(&table->lock);
	if (inode->fd >= 0)
		return -EAGAIN;
	assert(inode->dir);
	strcpy(name, inode->name);
	inode->dir->holds++;
	*ret_dir = inode->dir;
	return 0;
}

static int open_in(struct fs *fs, struct fs_inode *dir, const char *name,
		   const struct fs_inode *inode)
{
	_cleanup_fs_fd_ struct fs_fd dir_fd = {0};
	struct fs_identity id;
	struct stat st;
	int r = fs_inode_fd(fs, dir, &dir_fd); /* may go on up in the same way */

	if (r < 0)
		return r;
	_cleanup_close_ int fd = openat(dir_fd.fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (fstat(fd, &st) < 0 || fs_identify(fs, fd, &st, &id) < 0 || st.st_ino != inode->ino ||
	    st.st_dev != fs->backing_dev || !fs_identity_is(&id, inode))
		return -ESTALE;
	return take_fd(&fd);
}

int fs_path_open(struct fs *fs, struct fs_inode *inode)
{
	struct fs_inode *dir;
	char name[NAME_MAX + 1];
	int r = recall(fs->inodes, inode, &dir, name);

	if (r < 0)
		return r;
	int fd = open_in(fs, dir, name, inode);
	if (fd < 0) {
		/* It was renamed meanwhile, and has had its descriptor since? */
		LOCK_SCOPE(&fs->inodes->lock);
		if (inode->fd >= 0 || inode->dir != dir || strcmp(inode->name, name) != 0)
			fd = -EAGAIN;
	}
	fs_inode_unhold(fs, dir);
	return fd;
}
