/* SPDX-License-Identifier: MIT */
/*
 * Operations on ranges that the backing does by itself: fallocate, lseek, copy_file_range.
 *
 * They change the backing's bytes beside the cache, so what the cache has of the range is written and dropped first, with
 * inode->lock held exclusively so that no reader brings old bytes back in. What they may allocate is charged before; afterwards
 * the backing is asked what it really holds there, since it may have failed half-way, kept holes, or zeroed without
 * freeing. The kernel does not hand down collapse and insert, so they are not here.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sizes.h"

/* One copy_file_range(2) at most: both inodes are locked meanwhile, and a short count is allowed. */
#define COPY_MAX (64u << 20)

/* Charges all blocks of the range that are missing, or as many as fit with QUOTA_PARTIAL: *@ret_len. 0, -EDQUOT, -errno. */
static int charge_range_locked(struct fs *fs, struct fs_inode *inode, uint64_t off, uint64_t len,
			       unsigned flags, uint64_t *ret_len)
{
	uint64_t unit = fs->settings.block_size, added;
	uint64_t missing = fs_blocks_missing(inode->blocks, off, len), granted = 0;
	_cleanup_(quota_charge_release) struct quota_charge charge = { 0 };
	int r = missing == 0 ? 0 :
			       quota_charge(fs->quota, &inode->owner, missing * unit, 0, unit, flags,
					    &charge);
	if (r < 0)
		return r;
	if (r != QUOTA_OVER_LIMIT)
		granted = charge.bytes / unit;
	if (granted < missing) {
		len = flags & QUOTA_PARTIAL ? fs_blocks_covered(inode->blocks, off, len, granted) : 0;
		if (len == 0)
			return -EDQUOT;
	}
	r = fs_blocks_set(inode->blocks, off, len, &added);
	if (r < 0)
		return r;
	quota_charge_take(&charge);
	*ret_len = len;
	return 0;
}

static void follow_size_locked(struct fs_inode *inode, uint64_t size)
{
	if (size > wb_file_size(inode->pages))
		wb_file_size_changed(inode->pages, size);
}

/* ---- fallocate ---- */

struct falloc {
	struct fs *fs;
	struct fs_inode *inode;
	int mode;
	uint64_t off, len;
	unsigned charge_flags;
};

static int backing_fallocate(struct falloc *falloc)
{
	int fd = wb_file_fd(falloc->inode->pages), r;
	do
		r = fallocate(fd, falloc->mode, (off_t)falloc->off, (off_t)falloc->len);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

static int allocate_range_locked(struct falloc *falloc)
{
	struct fs_inode *inode = falloc->inode;
	int fd = wb_file_fd(inode->pages);
	uint64_t charged;
	int r = charge_range_locked(falloc->fs, inode, falloc->off, falloc->len, falloc->charge_flags,
				    &charged);
	if (r < 0)
		return r;
	r = backing_fallocate(falloc);
	if (r == 0 && !(falloc->mode & FALLOC_FL_KEEP_SIZE))
		follow_size_locked(inode, falloc->off + falloc->len);
	/* Where allocation without data does not count, none of it is charged for long. */
	if (r < 0 || falloc->mode & FALLOC_FL_ZERO_RANGE || !fs_blocks_charges_allocation(fd))
		fs_inode_resync_locked(falloc->fs, inode, falloc->off, falloc->len);
	return r;
}

static int change_range_locked(struct falloc *falloc)
{
	uint64_t unit = falloc->fs->settings.block_size;
	uint64_t start = round_down_pow2(falloc->off, unit);
	uint64_t end = round_up_pow2(falloc->off + falloc->len, unit);
	int r = wb_file_invalidate(falloc->inode->pages, start, end - start);
	if (r < 0)
		return r;
	if (falloc->mode & FALLOC_FL_ZERO_RANGE)
		return allocate_range_locked(falloc);
	r = backing_fallocate(falloc);
	fs_inode_resync_locked(falloc->fs, falloc->inode, falloc->off, falloc->len);
	return r;
}

static int fallocate_inode(struct falloc *falloc)
{
	const int change = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	FS_CHARGE_SCOPE(falloc->fs);
	FS_INODE_SCOPE(falloc->inode, true);
	int r = fs_inode_load_blocks_locked(falloc->fs, falloc->inode);
	if (r < 0)
		return r;
	r = falloc->mode & change ? change_range_locked(falloc) : allocate_range_locked(falloc);
	if (r != -EDQUOT) /* what failed half-way has changed the backing's times too */
		fs_inode_touch(falloc->inode);
	return r;
}

void fs_do_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		     struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, fallocate);
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	struct falloc falloc = { .fs = op.fs, .inode = fs_handle_of(fi)->inode, .mode = mode,
				 .off = (uint64_t)offset, .len = (uint64_t)length,
				 .charge_flags = fs_charge_flags(req) };
	int r = 0;

	if (offset < 0 || length <= 0)
		r = -EINVAL;
	else if (length > INT64_MAX / 2 - offset)
		r = -EFBIG; /* no backing has that, and the sums below must not wrap */
	else if (mode & ~known)
		r = -EOPNOTSUPP;
	if (r == 0)
		r = fs_inode_kill_setid_of(op.fs, falloc.inode, req);
	if (r == 0)
		r = fallocate_inode(&falloc);
	fs_op_reply_err(&op, r);
}

/* ---- lseek ---- */

static int seek_locked(struct fs_inode *inode, uint64_t off, bool data, uint64_t *ret_off)
{
	uint64_t size = wb_file_size(inode->pages);
	if (off >= size)
		return -ENXIO;
	uint64_t found = fs_blocks_next(inode->blocks, off, data);
	if (data && found >= size)
		return -ENXIO;
	*ret_off = min_u64(found, size); /* there is a hole at the end of every file */
	return 0;
}

static int seek_inode(struct fs *fs, struct fs_inode *inode, uint64_t off, bool data, uint64_t *ret_off)
{
	{
		FS_INODE_SCOPE(inode, false);
		if (inode->blocks)
			return seek_locked(inode, off, data, ret_off);
	}
	FS_INODE_SCOPE(inode, true);
	int r = fs_inode_load_blocks_locked(fs, inode);
	return r < 0 ? r : seek_locked(inode, off, data, ret_off);
}

void fs_do_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, lseek);
	uint64_t found = 0;
	int r = -EINVAL;

	if (whence == SEEK_DATA || whence == SEEK_HOLE)
		r = off < 0 ? -ENXIO :
			      seek_inode(op.fs, fs_handle_of(fi)->inode, (uint64_t)off,
					 whence == SEEK_DATA, &found);
	if (r < 0)
		fs_op_reply_err(&op, r);
	else
		fuse_reply_lseek(req, (off_t)found);
}

/* ---- copy_file_range ---- */

struct copy {
	struct fs *fs;
	struct fs_inode *in, *out;
	uint64_t off_in, off_out, len;
	unsigned charge_flags;
};

/* Bytes copied, or -errno. */
static ssize_t backing_copy(const struct copy *copy, uint64_t len)
{
	int fd_in = wb_file_fd(copy->in->pages), fd_out = wb_file_fd(copy->out->pages);
	off_t off_in = (off_t)copy->off_in, off_out = (off_t)copy->off_out;
	size_t done = 0;
	while (done < len) {
		ssize_t n = copy_file_range(fd_in, &off_in, fd_out, &off_out, len - done, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && done == 0)
			return -errno;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* The backing is shorter than the file while its last pages are dirty. A copy must neither meet that end, nor move it unnoticed. (Its
 * mtime is put right when those pages are written.) */
static int match_size_locked(struct fs_inode *inode)
{
	uint64_t size = wb_file_size(inode->pages);
	int fd = wb_file_fd(inode->pages);
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < size && ftruncate(fd, (off_t)size) < 0)
		return -errno;
	wb_file_size_changed(inode->pages, size);
	return 0;
}

static ssize_t copy_locked(struct copy *copy)
{
	uint64_t size_in = wb_file_size(copy->in->pages);
	if (copy->off_in >= size_in)
		return 0;
	uint64_t len = min_u64(copy->len, size_in - copy->off_in);
	uint64_t unit = copy->fs->settings.block_size;
	uint64_t start = round_down_pow2(copy->off_out, unit);

	int r = wb_file_flush(copy->in->pages, copy->off_in, len);
	if (r == 0)
		r = match_size_locked(copy->in);
	if (r == 0)
		r = match_size_locked(copy->out);
	if (r == 0)
		r = fs_inode_load_blocks_locked(copy->fs, copy->out);
	if (r == 0)
		r = charge_range_locked(copy->fs, copy->out, copy->off_out, len,
					copy->charge_flags | QUOTA_PARTIAL, &len);
	if (r < 0)
		return r;
	/* Whole blocks, so that asking the backing about them afterwards needs no flush. */
	r = wb_file_invalidate(copy->out->pages, start,
			       round_up_pow2(copy->off_out + len, unit) - start);
	ssize_t done = r < 0 ? r : backing_copy(copy, len);
	if (done > 0)
		follow_size_locked(copy->out, copy->off_out + (uint64_t)done);
	fs_inode_touch(copy->out);
	fs_inode_resync_locked(copy->fs, copy->out, copy->off_out, len);
	return done;
}

/* Two files are always locked in the order of their numbers. */
static ssize_t copy_inodes(struct copy *copy)
{
	FS_CHARGE_SCOPE(copy->fs);
	if (copy->in == copy->out) {
		FS_INODE_SCOPE(copy->out, true);
		return copy_locked(copy);
	}
	bool in_first = copy->in->nodeid < copy->out->nodeid;
	FS_INODE_SCOPE(in_first ? copy->in : copy->out, !in_first);
	FS_INODE_SCOPE(in_first ? copy->out : copy->in, in_first);
	return copy_locked(copy);
}

void fs_do_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
			   fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
			   int flags)
{
	FS_OP_SCOPE(op, req, copy_file_range);
	struct copy copy = { .fs = op.fs, .in = fs_handle_of(fi_in)->inode,
			     .out = fs_handle_of(fi_out)->inode, .off_in = (uint64_t)off_in,
			     .off_out = (uint64_t)off_out, .len = min_u64(len, COPY_MAX),
			     .charge_flags = fs_charge_flags(req) };
	ssize_t done;

	if (flags != 0 || off_in < 0 || off_out < 0)
		done = -EINVAL;
	else if (off_out > INT64_MAX - (off_t)copy.len)
		done = -EFBIG;
	else
		done = fs_inode_kill_setid_of(op.fs, copy.out, req);
	if (done == 0)
		done = copy_inodes(&copy);
	if (done < 0) {
		fs_op_reply_err(&op, (int)done);
		return;
	}
	op.bytes = (uint64_t)done;
	fuse_reply_write(req, (size_t)done);
}
