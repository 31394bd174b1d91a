/* SPDX-License-Identifier: MIT */
/*
 * Attributes: the backing's, corrected by what is still in the cache.
 *
 * Of a regular file the cache knows the size, the quota the blocks, and fs_inode the times, all
 * before the backing does. st_blocks is what the quota charges: data blocks of block_size, without
 * the backing's own (ext4 counts extent and attribute blocks too). Where the backing's number can
 * only mean "all there" or "nothing there" it is believed; otherwise the extents are counted.
 *
 * What the kernel may cache, for fs_attr_timeout() seconds, and why that stays coherent. All of it
 * rests on one promise: nobody changes the backing directory while it is mounted.
 * - names, positive and negative: they change only through requests that the kernel itself makes,
 * and it updates its dentries then. Where a daemon is restarted the mount is a new one, without
 * caches.
 * - mode, owner, links, size: the same. A write, refused ones with an undo included, makes the
 * kernel drop its size, times and blocks.
 * - st_blocks: counted from what is charged, which is known at the write; write-back later does not
 * change it.
 * - mtime and ctime: kept in fs_inode from the write on. Write-back makes the backing's later,
 * which nobody sees while the inode is known; mtime is put right before it is forgotten, ctime
 * cannot be.
 * - atime: follows the backing's, which sees reads that miss our cache; the kernel asks again after
 * a read of its own.
 * - symbolic links' targets: they never change.
 * - ACLs: chmod and setxattr by way of the kernel make it drop them.
 * - data pages: the kernel's own clean copies; every change of data goes through the kernel.
 */
#include "fusefs/inodes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/sizes.h"

#define FS_CACHE_SECONDS 3600.0
#define FS_STAT_BLOCK 512u

double fs_attr_timeout(struct fs *fs)
{
	return FS_CACHE_SECONDS;
}

/* The clock that the kernel stamps files with: our stamps must compare with the backing's. */
static struct timespec stamp(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return now;
}

/* Bytes charged for a file without a map of its blocks. */
static int measure(struct fs *fs, int fd, const struct stat *st, uint64_t *ret_bytes)
{
	uint64_t held = (uint64_t)st->st_blocks * FS_STAT_BLOCK;
	uint64_t full = round_up_pow2((uint64_t)st->st_size, WB_PAGE_SIZE);

	/* A hole and a block of metadata can cancel out; not in a file so small that its extents fit into the inode. */
	if ((held == 0 && full == 0) || (held == full && full <= 4 * WB_PAGE_SIZE)) {
		*ret_bytes = held == 0 ? 0 : round_up_pow2(full, fs->settings.block_size);
		return 0;
	}
	_cleanup_close_ int readable = open(fs_fd_path(fd).text, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (readable < 0)
		return -errno;
	return fs_blocks_measure(readable, fs->settings.block_size, ret_bytes);
}

static int stat_regular(struct fs *fs, struct fs_inode *inode, int fd, struct stat *ret_st)
{
	/* Waits while a refused write is undone, as stat(2) does for the vnode lock. */
	FS_INODE_SCOPE(inode, false);
	uint64_t bytes;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (inode->blocks)
		st.st_blocks = (blkcnt_t)(fs_blocks_count(inode->blocks) *
					  (fs->settings.block_size / FS_STAT_BLOCK));
	else if (measure(fs, fd, &st, &bytes) ==
		 0) /* else unreadable for us: the backing's number */
		st.st_blocks = (blkcnt_t)(bytes / FS_STAT_BLOCK);
	if (inode->pages)
		st.st_size = (off_t)wb_file_size(inode->pages);
	LOCK_SCOPE(&inode->time_lock);
	if (inode->times_cached) {
		st.st_mtim = inode->mtime;
		st.st_ctim = inode->ctime;
	}
	*ret_st = st;
	return 0;
}

int fs_inode_stat(struct fs *fs, struct fs_inode *inode, struct stat *ret_st)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	int r = fs_inode_fd(fs, inode, &fd);

	if (r < 0)
		return r;
	if (S_ISREG(inode->type))
		return stat_regular(fs, inode, fd.fd, ret_st);
	struct stat st;
	if (fstat(fd.fd, &st) < 0)
		return -errno;
	/* One of the root's subdirectories is hidden; a file system that does not count them
	 * says 1. */
	if (inode->nodeid == FUSE_ROOT_ID && fs->private_fd >= 0 && st.st_nlink > 2)
		st.st_nlink--;
	*ret_st = st;
	return 0;
}

int fs_inode_entry(struct fs *fs, struct fs_inode *inode, struct fuse_entry_param *ret_entry)
{
	struct fuse_entry_param entry = {
		.ino = inode->nodeid,
		.generation = inode->generation,
		.attr_timeout = fs_attr_timeout(fs),
		.entry_timeout = fs_attr_timeout(fs),
	};
	int r = fs_inode_stat(fs, inode, &entry.attr);

	if (r == 0)
		*ret_entry = entry;
	return r;
}

void fs_inode_touch_ctime(struct fs_inode *inode)
{
	LOCK_SCOPE(&inode->time_lock);
	if (inode->times_cached)
		inode->ctime = stamp();
}

void fs_do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, getattr);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	struct stat st;
	int r = inode ? fs_inode_stat(op.fs, inode, &st) : -ESTALE;

	if (r < 0)
		fs_op_reply_err(&op, r);
	else
		fuse_reply_attr(req, &st, fs_attr_timeout(op.fs));
}

/* ---- setattr ---- */

static int set_owner(struct fs *fs, fuse_req_t req, struct fs_inode *inode, const struct stat *attr,
		     int to_set)
{
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

	return fs_inode_chown(fs, inode, uid, gid, fs_charge_flags(req));
}

static int set_mode(struct fs *fs, struct fs_inode *inode, mode_t mode)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	int r = fs_inode_fd(fs, inode, &fd);

	if (r < 0)
		return r;
	r = chmod(fs_fd_path(fd.fd).text, mode & 07777) < 0 ? -errno : 0;
	atomic_store(&inode->no_setid, false);
	return r;
}

static struct timespec time_to_set(int to_set, int set, int set_now, const struct timespec *given)
{
	if (to_set & set_now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (to_set & set)
		return *given;
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(struct fs *fs, struct fs_inode *inode, const struct stat *attr, int to_set)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct timespec times[2] = {
		time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, &attr->st_atim),
		time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, &attr->st_mtim),
	};
	int r = fs_inode_fd(fs, inode, &fd);

	if (r < 0)
		return r;
	/* Under the lock: write-back that ends just now must not put an older mtime over this one.
	 */
	LOCK_SCOPE(&inode->time_lock);
	if (utimensat(fd.fd, "", times, AT_EMPTY_PATH) < 0)
		return -errno;
	if (inode->times_cached && times[1].tv_nsec != UTIME_OMIT)
		inode->mtime = times[1].tv_nsec == UTIME_NOW ? stamp() : times[1];
	return 0;
}

/* What may be refused for want of room comes first. A change of owner or size clears setuid bits,
 * so the mode, which the kernel has worked out already, comes after; times last, since the others
 * change them. A request for none of these is a chown(2) to -1 and -1: it too clears setuid bits and
 * sets ctime, as any local file system of Linux has it. */
static int setattr(struct fs *fs, fuse_req_t req, struct fs_inode *inode, const struct stat *attr,
		   int to_set)
{
	const int times = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME |
			  FUSE_SET_ATTR_MTIME_NOW;
	const int others = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_SIZE | times;
	int r = 0;

	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) || !(to_set & others))
		r = set_owner(fs, req, inode, attr, to_set);
	if (r == 0 && to_set & FUSE_SET_ATTR_SIZE)
		r = fs_inode_kill_setid(fs, inode);
	if (r == 0 && to_set & FUSE_SET_ATTR_SIZE)
		r = attr->st_size < 0 ? -EINVAL
				      : fs_inode_truncate(fs, inode, (uint64_t)attr->st_size);
	if (r == 0 && to_set & FUSE_SET_ATTR_MODE)
		r = set_mode(fs, inode, attr->st_mode);
	if (r == 0 && to_set & times)
		r = set_times(fs, inode, attr, to_set);
	if (r == 0)
		fs_inode_touch_ctime(inode);
	return r;
}

void fs_do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		   struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, setattr);
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	struct stat st;
	int r = inode ? setattr(op.fs, req, inode, attr, to_set) : -ESTALE;

	if (r == 0)
		r = fs_inode_stat(op.fs, inode, &st);
	if (r < 0)
		fs_op_reply_err(&op, r);
	else
		fuse_reply_attr(req, &st, fs_attr_timeout(op.fs));
}

/* ---- the file system as a whole ---- */

void fs_do_statfs(fuse_req_t req, fuse_ino_t ino)
{
	FS_OP_SCOPE(op, req, statfs);
	struct statvfs stv;

	if (fstatvfs(op.fs->backing_fd, &stv) < 0)
		fs_op_reply_err(&op, errno);
	else
		fuse_reply_statfs(req, &stv);
}

/* The kernel checks by itself (default_permissions) and asks here only when a mount was made
 * without. */
void fs_do_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	FS_OP_SCOPE(op, req, access);
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct fs_inode *inode = fs_inode_get(op.fs, ino);
	int r = inode ? fs_inode_fd(op.fs, inode, &fd) : -ESTALE;

	if (r == 0 && faccessat(AT_FDCWD, fs_fd_path(fd.fd).text, mask, AT_EACCESS) < 0)
		r = -errno;
	fs_op_reply_err(&op, r);
}
