/* SPDX-License-Identifier: MIT */
/*
 * Open files: from open or create to the last close.
 *
 * The kernel keeps its page cache across opens (keep_cache): every change of data goes through the kernel itself, which updates or
 * drops its pages then, and nobody else writes to the backing. That holds for O_DIRECT too as long as the kernel handles the flag,
 * so direct_io, which would bypass its pages without dropping them on kernels before 6.6, is not asked for.
 *
 * A handle is the inode, held, and a cursor in the errors of its write-back: each handle is told of each error once, by the first flush or
 * fsync after it, with the errno the backing gave.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static bool wants_write(const struct fuse_file_info *fi)
{
	return (fi->flags & O_ACCMODE) != O_RDONLY;
}

/* An earlier opener may have got the file for reading only, where we are not root and its mode has changed since. */
static int make_writable_locked(struct fs *fs, struct fs_inode *inode)
{
	int fd = wb_file_fd(inode->pages);
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDWR)
		return 0;
	_cleanup_close_ int writable = fs_inode_reopen(fs, inode, O_RDWR);
	if (writable < 0)
		return writable;
	return dup3(writable, fd, O_CLOEXEC) < 0 ? -errno : 0;
}

/* Makes the handle of an inode whose pages were opened. */
static int handle_new(struct fs *fs, struct fs_inode *inode, struct fuse_file_info *fi)
{
	struct fs_handle *handle = calloc(1, sizeof(*handle));
	if (!handle)
		return -ENOMEM;
	handle->inode = inode;
	handle->error_seen = wb_file_error_sample(inode->pages);
	fs_inode_hold(fs, inode);
	fi->fh = (uintptr_t)handle;
	fi->keep_cache = 1;
	return 0;
}

static void handle_free(struct fs *fs, struct fs_handle *handle)
{
	struct fs_inode *inode = handle->inode;
	{
		FS_CHARGE_SCOPE(fs);
		FS_INODE_SCOPE(inode, true);
		fs_inode_close_pages_locked(fs, inode);
	}
	free(handle);
	fs_inode_unhold(fs, inode);
}

/* Opens the pages, from @fd (taken over) if there is one, and makes the handle. */
static int open_pages(struct fs *fs, struct fs_inode *inode, int fd, struct fuse_file_info *fi)
{
	FS_CHARGE_SCOPE(fs);
	FS_INODE_SCOPE(inode, true);
	int r = fd >= 0 ? fs_inode_adopt_pages_locked(fs, inode, fd) :
			  fs_inode_open_pages_locked(fs, inode);
	if (r < 0)
		return r;
	if (wants_write(fi))
		r = make_writable_locked(fs, inode);
	if (r == 0)
		r = handle_new(fs, inode, fi);
	if (r < 0)
		fs_inode_close_pages_locked(fs, inode);
	return r;
}

static int open_inode(struct fs *fs, struct fs_inode *inode, struct fuse_file_info *fi)
{
	if (!S_ISREG(inode->type))
		return -ESTALE; /* a name that changed its meaning: the kernel looks again */
	int r = open_pages(fs, inode, -1, fi);
	if (r < 0 || !(fi->flags & O_TRUNC))
		return r;
	r = fs_inode_kill_setid(fs, inode);
	if (r == 0)
		r = fs_inode_truncate(fs, inode, 0);
	if (r < 0)
		handle_free(fs, fs_handle_of(fi));
	return r;
}

void fs_do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, open);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	int r = inode ? open_inode(op.fs, inode, fi) : -ESTALE;

	if (r < 0)
		fs_op_reply_err(&op, r);
	else if (fuse_reply_open(req, fi) != 0) /* interrupted: there will be no release */
		handle_free(op.fs, fs_handle_of(fi));
}

/* ---- create ---- */

struct create {
	struct fs *fs;
	fuse_req_t req;
	struct fs_fd dir;
	const char *name;
	mode_t mode;
};

static int create_as_caller(struct create *create)
{
	FS_CREDS_SCOPE(create->fs, create->req);
	int fd = openat(create->dir.fd, create->name,
			O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, create->mode & 07777);
	return fd < 0 ? -errno : fd;
}

/* The file is there and charged; makes it known. */
static int know_created(struct fs *fs, int fd, struct fs_inode **ret_inode)
{
	struct stat st;
	int path_fd = open(fs_fd_path(fd).text, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;
	if (fstat(path_fd, &st) < 0) {
		close(path_fd);
		return -errno;
	}
	return fs_inode_lookup(fs, path_fd, &st, ret_inode);
}

/* Makes and charges the file, counts a lookup and opens it. -EEXIST: somebody was faster. */
static int create_new(struct create *create, struct fuse_file_info *fi, struct fs_inode **ret_inode)
{
	_cleanup_(quota_charge_release) struct quota_charge charge = { 0 };
	_cleanup_close_ int fd = -1;
	struct fs *fs = create->fs;
	struct stat st;
	{
		FS_CHARGE_SCOPE(fs);
		if (fstat(create->dir.fd, &st) < 0)
			return -errno;
		int r = fs_charge_inode(fs, create->req, &st, &charge);
		if (r < 0)
			return r;
		fd = create_as_caller(create);
		if (fd < 0)
			return fd;
		r = know_created(fs, fd, ret_inode);
		if (r < 0) {
			/* The caller must not be told of a failure and find the name. */
			unlinkat(create->dir.fd, create->name, 0);
			return r;
		}
		quota_charge_take(&charge);
	}
	int r = open_pages(fs, *ret_inode, take_fd(&fd), fi);
	if (r < 0)
		fs_inode_forget(fs, *ret_inode, 1);
	return r;
}

static int create_or_open(struct create *create, struct fuse_file_info *fi, struct fs_inode **ret_inode)
{
	int r = create_new(create, fi, ret_inode);
	if (r != -EEXIST || (fi->flags & O_EXCL))
		return r;
	r = fs_name_lookup(create->fs, create->dir.fd, create->name, ret_inode);
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r; /* gone again: the kernel looks again */
	r = open_inode(create->fs, *ret_inode, fi);
	if (r < 0)
		fs_inode_forget(create->fs, *ret_inode, 1);
	return r;
}

static int create_in(struct create *create, fuse_ino_t parent, struct fuse_file_info *fi,
		     struct fs_inode **ret_inode)
{
	struct fs_inode *dir = fs_inode_get(create->fs, parent);
	int r = dir ? fs_name_check(create->fs, dir, create->name) : -ESTALE;
	if (r == 0)
		r = fs_inode_fd(create->fs, dir, &create->dir);
	return r < 0 ? r : create_or_open(create, fi, ret_inode);
}

void fs_do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		  struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, create);
	struct create create = { .fs = op.fs, .req = req, .name = name, .mode = mode };
	struct fuse_entry_param entry;
	struct fs_inode *inode;

	int r = create_in(&create, parent, fi, &inode);
	fs_fd_release(&create.dir);
	if (r < 0) {
		fs_op_reply_err(&op, r);
		return;
	}
	r = fs_inode_entry(op.fs, inode, &entry);
	if (r < 0)
		fs_op_reply_err(&op, r);
	if (r < 0 || fuse_reply_create(req, &entry, fi) != 0) {
		handle_free(op.fs, fs_handle_of(fi));
		fs_inode_forget(op.fs, inode, 1);
	}
}

/* ---- flush, fsync, release ---- */

void fs_do_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, flush);
	struct fs_handle *handle = fs_handle_of(fi);
	fs_op_reply_err(&op, wb_file_error(handle->inode->pages, &handle->error_seen));
}

static int sync_inode(struct fs_inode *inode, bool datasync)
{
	int r = 0;
	/* Data first, or writing it would make the times wrong again that are to be synced with it. */
	if (!datasync) {
		r = wb_file_flush(inode->pages, 0, UINT64_MAX);
		if (r == 0)
			r = fs_inode_settle_times(inode);
		if (r == -EPERM || r == -EACCES) /* not root, not the owner: the backing's own time must do */
			r = 0;
	}
	int synced = wb_file_sync(inode->pages, datasync);
	return synced < 0 ? synced : r;
}

void fs_do_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, fsync);
	struct fs_handle *handle = fs_handle_of(fi);
	int r = sync_inode(handle->inode, datasync != 0);
	/* The error just met is among those that were recorded: it is not told twice. */
	int recorded = wb_file_error(handle->inode->pages, &handle->error_seen);
	fs_op_reply_err(&op, recorded < 0 ? recorded : r);
}

void fs_do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, release);
	handle_free(op.fs, fs_handle_of(fi));
	fs_op_reply_err(&op, 0);
}
