/* SPDX-License-Identifier: MIT */
/*
 * Names: looking up, making, linking, renaming and removing them, as the backing directory does.
 *
 * Names are not cached here: every operation is the backing's own, so that a crash leaves what ext4
 * would. Added are the charge of an inode before it is made, its return after the last name is
 * gone, and the hidden directory of the daemon. What is removed is looked up first and held
 * meanwhile: its number must not be free before we know whose it was.
 */
#include "fusefs/inodes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- helpers ---- */

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_hidden(const struct fs_inode *parent, const char *name)
{
	return parent->nodeid == FUSE_ROOT_ID && strcmp(name, FS_PRIVATE_DIR) == 0;
}

int fs_name_check(struct fs *fs, struct fs_inode *parent, const char *name)
{
	if (name[0] == '\0' || is_dot(name) || strchr(name, '/'))
		return -EINVAL;
	return is_hidden(parent, name) ? -EPERM : 0;
}

/* A directory named in a request, with its descriptor. */
static int dir_of(struct fs *fs, fuse_ino_t nodeid, struct fs_inode **ret_dir, struct fs_fd *ret_fd)
{
	struct fs_inode *dir = fs_inode_get(fs, nodeid);

	if (!dir)
		return -ESTALE;
	*ret_dir = dir;
	return fs_inode_fd(fs, dir, ret_fd);
}

int fs_name_lookup(struct fs *fs, int dirfd, const char *name, struct fs_inode **ret_inode)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != fs->backing_dev)
		return -EXDEV;
	return fs_inode_lookup(fs, take_fd(&fd), &st, ret_inode);
}

/* One lookup, given back at the end of the scope; with the inode's descriptor pinned. */
struct name_ref {
	struct fs *fs;
	struct fs_inode *inode;
	struct fs_fd fd;
};

static void name_ref_release(struct name_ref *ref)
{
	fs_fd_release(&ref->fd);
	if (ref->inode)
		fs_inode_forget(ref->fs, ref->inode, 1);
}

#define _cleanup_name_ref_ _cleanup_(name_ref_release)

static int name_ref_init(struct fs *fs, int dirfd, const char *name, struct name_ref *ref)
{
	int r = fs_name_lookup(fs, dirfd, name, &ref->inode);

	ref->fs = fs;
	if (r < 0)
		return r;
	return fs_inode_fd(fs, ref->inode, &ref->fd);
}

/* A name of it was taken away: was it the last? Inside FS_CHARGE_SCOPE since before. */
static void name_ref_unlinked(struct name_ref *ref)
{
	struct stat st;

	fs_inode_touch_ctime(ref->inode);
	/* Some file systems count 1 or 2 links for a directory that is gone: it never has another
	 * name. */
	if (!S_ISDIR(ref->inode->type) && (fstat(ref->fd.fd, &st) < 0 || st.st_nlink > 0))
		return;
	fs_inode_keep_fd(ref->fs, ref->inode);
	fs_inode_unlinked(ref->fs, ref->inode);
}

/* ---- lookup and forget ---- */

/* "." of any inode and ".." of directories are asked for by the NFS server, "." of inodes long
 * forgotten too. */
static int lookup_dot(struct fs *fs, fuse_ino_t nodeid, const char *name,
		      struct fs_inode **ret_inode)
{
	struct fs_inode *inode = fs_inode_get(fs, nodeid);
	bool up = strcmp(name, "..") == 0;
	_cleanup_fs_fd_ struct fs_fd fd = {0};

	if (!inode)
		return up ? -ESTALE : fs_inode_revive(fs, nodeid, ret_inode);
	if (!up || nodeid == FUSE_ROOT_ID) {
		fs_inode_count_lookup(fs, inode);
		*ret_inode = inode;
		return 0;
	}
	int r = fs_inode_fd(fs, inode, &fd);
	return r < 0 ? r : fs_name_lookup(fs, fd.fd, "..", ret_inode);
}

static int lookup(struct fs *fs, fuse_ino_t parent, const char *name, struct fs_inode **ret_inode)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *dir;

	if (is_dot(name))
		return lookup_dot(fs, parent, name, ret_inode);
	int r = dir_of(fs, parent, &dir, &fd);
	if (r < 0)
		return r;
	if (is_hidden(dir, name))
		return -ENOENT;
	return fs_name_lookup(fs, fd.fd, name, ret_inode);
}

void fs_do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	FS_OP_SCOPE(op, req, lookup);
	struct fs_inode *inode;
	int r = lookup(op.fs, parent, name, &inode);

	if (r == -ENOENT) {
		/* Node id 0: the kernel may remember that there is nothing. */
		struct fuse_entry_param none = {.entry_timeout = fs_attr_timeout(op.fs)};
		fuse_reply_entry(req, &none);
	} else if (r < 0) {
		fs_op_reply_err(&op, r);
	} else {
		fs_op_reply_entry(&op, inode);
	}
}

static void forget(struct fs *fs, fuse_ino_t ino, uint64_t nlookup)
{
	struct fs_inode *inode = fs_inode_get(fs, ino);

	if (inode)
		fs_inode_forget(fs, inode, nlookup);
}

void fs_do_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	FS_OP_SCOPE(op, req, forget);
	forget(op.fs, ino, nlookup);
	fuse_reply_none(req);
}

void fs_do_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	FS_OP_SCOPE(op, req, forget);
	for (size_t i = 0; i < count; i++)
		forget(op.fs, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* ---- making ---- */

/* What mknod, mkdir and symlink make, so that all around it is written once. */
struct make {
	mode_t mode; /* with the type */
	dev_t rdev;
	const char *target;
};

static int make_at(int dirfd, const char *name, const struct make *make)
{
	int r;

	if (S_ISDIR(make->mode))
		r = mkdirat(dirfd, name, make->mode & 07777);
	else if (S_ISLNK(make->mode))
		r = symlinkat(make->target, dirfd, name);
	else
		r = mknodat(dirfd, name, make->mode, make->rdev);
	return r < 0 ? -errno : 0;
}

static int make_as_caller(struct fs *fs, fuse_req_t req, int dirfd, const char *name,
			  const struct make *make)
{
	FS_CREDS_SCOPE(fs, req);
	return make_at(dirfd, name, make);
}

static int make(struct fs *fs, fuse_req_t req, fuse_ino_t parent, const char *name,
		const struct make *make, struct fs_inode **ret_inode)
{
	_cleanup_(quota_charge_release) struct quota_charge charge = {0};
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *dir;
	struct stat st;

	int r = dir_of(fs, parent, &dir, &fd);
	if (r < 0)
		return r;
	r = fs_name_check(fs, dir, name);
	if (r < 0)
		return r;
	FS_CHARGE_SCOPE(fs);
	if (fstat(fd.fd, &st) < 0)
		return -errno;
	r = fs_charge_inode(fs, req, &st, &charge);
	if (r < 0)
		return r;
	r = make_as_caller(fs, req, fd.fd, name, make);
	if (r < 0)
		return r;
	r = fs_name_lookup(fs, fd.fd, name, ret_inode);
	if (r < 0) {
		/* No descriptor left, say: the caller must not be told of a failure and find the
		 * name. */
		unlinkat(fd.fd, name, S_ISDIR(make->mode) ? AT_REMOVEDIR : 0);
		return r;
	}
	quota_charge_take(&charge);
	return 0;
}

static void make_and_reply(struct fs_op *op, fuse_ino_t parent, const char *name,
			   const struct make *what)
{
	struct fs_inode *inode;
	int r = make(op->fs, op->req, parent, name, what, &inode);

	if (r < 0)
		fs_op_reply_err(op, r);
	else
		fs_op_reply_entry(op, inode);
}

void fs_do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	FS_OP_SCOPE(op, req, mknod);
	struct make what = {.mode = mode & S_IFMT ? mode : mode | S_IFREG, .rdev = rdev};

	make_and_reply(&op, parent, name, &what);
}

void fs_do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	FS_OP_SCOPE(op, req, mkdir);
	struct make what = {.mode = (mode & 07777) | S_IFDIR};

	make_and_reply(&op, parent, name, &what);
}

void fs_do_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	FS_OP_SCOPE(op, req, symlink);
	struct make what = {.mode = S_IFLNK, .target = link};

	make_and_reply(&op, parent, name, &what);
}

/* ---- linking ---- */

static int link_fd(int fd, int dirfd, const char *name)
{
	if (linkat(fd, "", dirfd, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	/* ENOENT is also how the kernel says that AT_EMPTY_PATH is for the privileged. */
	if (linkat(AT_FDCWD, fs_fd_path(fd).text, dirfd, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return 0;
}

static int link_inode(struct fs *fs, struct fs_inode *inode, fuse_ino_t newparent,
		      const char *newname)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	_cleanup_fs_fd_ struct fs_fd dir_fd = {0};
	struct fs_inode *dir;

	int r = dir_of(fs, newparent, &dir, &dir_fd);
	if (r < 0)
		return r;
	r = fs_name_check(fs, dir, newname);
	if (r < 0)
		return r;
	r = fs_inode_fd(fs, inode, &fd);
	if (r < 0)
		return r;
	r = link_fd(fd.fd, dir_fd.fd, newname);
	if (r < 0)
		return r;
	fs_inode_touch_ctime(inode);
	fs_inode_count_lookup(fs, inode);
	return 0;
}

void fs_do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	FS_OP_SCOPE(op, req, link);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	int r = inode ? link_inode(op.fs, inode, newparent, newname) : -ESTALE;

	if (r < 0)
		fs_op_reply_err(&op, r);
	else
		fs_op_reply_entry(&op, inode);
}

void fs_do_readlink(fuse_req_t req, fuse_ino_t ino)
{
	FS_OP_SCOPE(op, req, readlink);
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	char target[PATH_MAX + 1];
	int r = inode ? fs_inode_fd(op.fs, inode, &fd) : -ESTALE;

	if (r < 0) {
		fs_op_reply_err(&op, r);
		return;
	}
	ssize_t len = readlinkat(fd.fd, "", target, sizeof(target) - 1);
	if (len < 0) {
		fs_op_reply_err(&op, errno);
		return;
	}
	target[len] = '\0';
	fuse_reply_readlink(req, target);
}

/* ---- removing ---- */

static int remove_name(struct fs *fs, fuse_ino_t parent, const char *name, int flags)
{
	_cleanup_fs_fd_ struct fs_fd dir_fd = {0};
	_cleanup_name_ref_ struct name_ref victim = {0};
	struct fs_inode *dir;

	int r = dir_of(fs, parent, &dir, &dir_fd);
	if (r < 0)
		return r;
	if (is_hidden(dir, name))
		return -ENOENT;
	r = name_ref_init(fs, dir_fd.fd, name, &victim);
	if (r < 0)
		return r == -EXDEV ? -EBUSY : r; /* a mount point */
	FS_CHARGE_SCOPE(fs);
	if (unlinkat(dir_fd.fd, name, flags) < 0)
		return -errno;
	name_ref_unlinked(&victim);
	return 0;
}

void fs_do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	FS_OP_SCOPE(op, req, unlink);
	fs_op_reply_err(&op, remove_name(op.fs, parent, name, 0));
}

void fs_do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	FS_OP_SCOPE(op, req, rmdir);
	fs_op_reply_err(&op, remove_name(op.fs, parent, name, AT_REMOVEDIR));
}

/* ---- renaming ---- */

/* One end of a rename. */
struct rename_end {
	struct fs_inode *dir;
	struct fs_fd dir_fd;
	struct name_ref ref; /* what had the name before; inode NULL: nothing */
	const char *name;
};

static void rename_end_release(struct rename_end *end)
{
	name_ref_release(&end->ref);
	fs_fd_release(&end->dir_fd);
}

static int rename_end_init(struct fs *fs, fuse_ino_t parent, const char *name,
			   struct rename_end *end)
{
	end->name = name;
	int r = dir_of(fs, parent, &end->dir, &end->dir_fd);
	if (r < 0)
		return r;
	r = name_ref_init(fs, end->dir_fd.fd, name, &end->ref);
	return r == -EXDEV ? -EBUSY : r;
}

static int rename_names(struct rename_end *from, struct rename_end *to, unsigned flags)
{
	if (renameat2(from->dir_fd.fd, from->name, to->dir_fd.fd, to->name, flags) < 0)
		return -errno;
	fs_inode_touch_ctime(from->ref.inode);
	if (!to->ref.inode)
		return 0;
	if (flags & RENAME_EXCHANGE)
		fs_inode_touch_ctime(to->ref.inode);
	else if (to->ref.inode != from->ref.inode) /* two names of one file: nothing was done */
		name_ref_unlinked(&to->ref);
	return 0;
}

static int rename_checked(struct fs *fs, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
			  const char *newname, unsigned flags)
{
	_cleanup_(rename_end_release) struct rename_end from = {0};
	_cleanup_(rename_end_release) struct rename_end to = {0};

	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL; /* a whiteout would be an inode that nobody is charged for */
	int r = rename_end_init(fs, parent, name, &from);
	if (r < 0)
		return r;
	if (is_hidden(from.dir, name))
		return -ENOENT;
	r = rename_end_init(fs, newparent, newname, &to);
	if (r < 0 && r != -ENOENT)
		return r;
	r = fs_name_check(fs, to.dir, newname);
	if (r < 0)
		return r;
	FS_CHARGE_SCOPE(fs);
	return rename_names(&from, &to, flags);
}

void fs_do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
		  const char *newname, unsigned flags)
{
	FS_OP_SCOPE(op, req, rename);
	fs_op_reply_err(&op, rename_checked(op.fs, parent, name, newparent, newname, flags));
}
