/* SPDX-License-Identifier: MIT */
/*
 * Extended attributes and inode flags, the backing's own.
 *
 * They are reached by /proc/self/fd, which leads to the inode itself, a symbolic link too. ACLs
 * pass as raw attributes: the kernel checks by them and the backing inherits them. Inode flags that
 * would keep the daemon from writing back what it has accepted (immutable, append-only) are
 * refused, not half supported.
 */
#include "fusefs/inodes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FS_XATTR_CAPABILITY "security.capability"
#define FS_XATTR_ACL "system.posix_acl_access"
#define FS_XATTR_TRUSTED "trusted."

/* ---- setting and removing ---- */

/* Whether the caller may keep the setgid bit of a file of group @gid: chmod(2)'s rule, which
 * setting an ACL follows. */
static bool may_keep_setgid(fuse_req_t req, gid_t gid)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	gid_t groups[256];

	if (ctx->uid == 0 || ctx->gid == gid)
		return true;
	int count = fuse_req_getgroups(req, (int)(sizeof(groups) / sizeof(groups[0])), groups);
	for (int i = 0; i < count && i < (int)(sizeof(groups) / sizeof(groups[0])); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

/* The backing sees root set the ACL and keeps the bit. */
static void drop_setgid(fuse_req_t req, int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_ISGID) &&
	    !may_keep_setgid(req, st.st_gid))
		chmod(fs_fd_path(fd).text, st.st_mode & 07777 & ~(mode_t)S_ISGID);
}

/* The lock orders this against who notes that there is no capability. */
static int change(struct fs_inode *inode, int fd, const char *name, const char *value, size_t size,
		  int flags)
{
	FS_INODE_SCOPE(inode, true);
	const struct fs_fd_path path = fs_fd_path(fd);
	int r = value ? setxattr(path.text, name, value, size, flags)
		      : removexattr(path.text, name);

	if (r < 0)
		return -errno;
	if (strcmp(name, FS_XATTR_CAPABILITY) == 0)
		atomic_store_explicit(&inode->no_capability, false, memory_order_relaxed);
	if (strcmp(name, FS_XATTR_ACL) == 0) /* may let the group execute a setgid file */
		atomic_store(&inode->no_setid, false);
	fs_inode_touch_ctime(inode);
	return 0;
}

void fs_do_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
		    size_t size, int flags)
{
	FS_OP_SCOPE(op, req, setxattr);
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	int r = inode ? fs_inode_fd(op.fs, inode, &fd) : -ESTALE;

	if (r == 0)
		r = change(inode, fd.fd, name, value ? value : "", size, flags);
	if (r == 0 && strcmp(name, FS_XATTR_ACL) == 0)
		drop_setgid(req, fd.fd);
	fs_op_reply_err(&op, r);
}

void fs_do_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	FS_OP_SCOPE(op, req, removexattr);
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	int r = inode ? fs_inode_fd(op.fs, inode, &fd) : -ESTALE;

	if (r == 0)
		r = change(inode, fd.fd, name, NULL, 0, 0);
	fs_op_reply_err(&op, r);
}

/* ---- getting and listing ---- */

static ssize_t get(struct fs *fs, struct fs_inode *inode, const char *name, void *value,
		   size_t size)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	int r = fs_inode_fd(fs, inode, &fd);

	if (r < 0)
		return r;
	ssize_t len = getxattr(fs_fd_path(fd.fd).text, name, value, size);
	return len < 0 ? -errno : len;
}

/* The kernel asks for it before every single write, and most files have none: asked of the backing
 * once. */
static ssize_t get_capability(struct fs *fs, struct fs_inode *inode, void *value, size_t size)
{
	if (atomic_load_explicit(&inode->no_capability, memory_order_relaxed))
		return -ENODATA;
	FS_INODE_SCOPE(inode, false);
	ssize_t len = get(fs, inode, FS_XATTR_CAPABILITY, value, size);
	if (len == -ENODATA)
		atomic_store_explicit(&inode->no_capability, true, memory_order_relaxed);
	return len;
}

static void reply_value(struct fs_op *op, const char *value, ssize_t len, size_t size)
{
	if (len < 0) {
		fs_op_reply_err(op, (int)len);
	} else if (size == 0) {
		fuse_reply_xattr(op->req, (size_t)len);
	} else if ((size_t)len > size) {
		fs_op_reply_err(op, ERANGE);
	} else {
		op->bytes = (size_t)len;
		fuse_reply_buf(op->req, value, (size_t)len);
	}
}

void fs_do_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	FS_OP_SCOPE(op, req, getxattr);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	_cleanup_free_ char *value = NULL;

	if (!inode) {
		fs_op_reply_err(&op, ESTALE);
		return;
	}
	size = size > XATTR_SIZE_MAX ? XATTR_SIZE_MAX : size;
	if (size > 0) {
		value = malloc(size);
		if (!value) {
			fs_op_reply_err(&op, ENOMEM);
			return;
		}
	}
	ssize_t len = strcmp(name, FS_XATTR_CAPABILITY) == 0
			      ? get_capability(op.fs, inode, value, size)
			      : get(op.fs, inode, name, value, size);
	reply_value(&op, value, len, size);
}

/* trusted.* is shown to the privileged only, as the backing would; it sees us instead of the
 * caller. */
static size_t hide_trusted(char *list, size_t len)
{
	size_t kept = 0;

	for (size_t at = 0; at < len;) {
		size_t entry = strnlen(list + at, len - at - 1) + 1;
		if (strncmp(list + at, FS_XATTR_TRUSTED, strlen(FS_XATTR_TRUSTED)) != 0) {
			memmove(list + kept, list + at, entry);
			kept += entry;
		}
		at += entry;
	}
	return kept;
}

void fs_do_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	FS_OP_SCOPE(op, req, listxattr);
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	_cleanup_free_ char *list = malloc(XATTR_LIST_MAX);
	int r = inode ? fs_inode_fd(op.fs, inode, &fd) : -ESTALE;

	if (r == 0 && !list)
		r = -ENOMEM;
	if (r < 0) {
		fs_op_reply_err(&op, r);
		return;
	}
	ssize_t len = listxattr(fs_fd_path(fd.fd).text, list, XATTR_LIST_MAX);
	if (len < 0)
		len = -errno;
	else if (fuse_req_ctx(req)->uid != 0)
		len = (ssize_t)hide_trusted(list, (size_t)len);
	reply_value(&op, list, len, size);
}

/* ---- inode flags (lsattr, chattr) ---- */

/* Those that say nothing about who may write, or how. */
#define FS_FLAGS_SETTABLE (FS_NODUMP_FL | FS_NOATIME_FL | FS_SYNC_FL | FS_DIRSYNC_FL | FS_TOPDIR_FL)

static int set_flags(int fd, int flags)
{
	int now;

	if (ioctl(fd, FS_IOC_GETFLAGS, &now) < 0)
		return -errno;
	if ((now ^ flags) & ~(int)FS_FLAGS_SETTABLE)
		return -EOPNOTSUPP;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0 ? -errno : 0;
}

/* How many bytes @cmd reads or writes; 0: not ours. FS_IOC_*FLAGS are declared with long and carry
 * an int. */
static size_t ioctl_size(unsigned cmd)
{
	switch (cmd) {
	case FS_IOC_GETFLAGS:
	case FS_IOC_SETFLAGS:
	case FS_IOC_GETVERSION:
		return sizeof(int);
	case FS_IOC_FSGETXATTR: /* how the kernel reads the old flags before it sets new ones */
		return sizeof(struct fsxattr);
	default:
		return 0;
	}
}

static int flags_ioctl(struct fs *fs, struct fs_inode *inode, unsigned cmd, void *value)
{
	_cleanup_close_ int fd = fs_inode_reopen(fs, inode, O_RDONLY | O_NONBLOCK);

	if (fd < 0)
		return fd;
	if (cmd != FS_IOC_SETFLAGS)
		return ioctl(fd, cmd, value) < 0 ? -errno : 0;
	int r = set_flags(fd, *(int *)value);
	if (r == 0)
		fs_inode_touch_ctime(inode);
	return r;
}

void fs_do_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi,
		 unsigned flags, const void *in_buf, size_t in_size, size_t out_size)
{
	FS_OP_SCOPE(op, req, ioctl);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	bool set = cmd == FS_IOC_SETFLAGS;
	size_t size = ioctl_size(cmd);
	_Alignas(struct fsxattr) char value[sizeof(struct fsxattr)] = {0};
	int r = inode ? 0 : -ESTALE;

	if (size == 0 || (set ? in_size : out_size) < size)
		r = -ENOTTY;
	if (r == 0 && set)
		memcpy(value, in_buf, size);
	if (r == 0)
		r = flags_ioctl(op.fs, inode, cmd, value);
	if (r < 0)
		fs_op_reply_err(&op, r);
	else
		fuse_reply_ioctl(req, 0, value, set ? 0 : size);
}
