/* SPDX-License-Identifier: MIT */
/*
 * One write(2): quota, pages, and, where the mode has one, the undo.
 *
 *	reserve		all missing blocks of the range are charged before a page is touched; there is nothing to undo.
 *			What ext4 and XFS do. undo=keep: as many as fit, a short count.
 *	list, bounded,	block by block, as FFS does below the vnode lock: the claim on the file is raised to the end of
 *	ordered		the block, pages are made where it is not overwritten wholly, then the block is charged, then
 *			the data is copied and the size follows. Any error: wb_file_rollback(), with inode->lock held until
 *			it is done, its wait for output in flight included. That is the pathology.
 *
 * As in the original the undo never reaches below the old size: what was overwritten there stays overwritten, and blocks that were
 * allocated in holes there stay allocated and charged. Write-back of clusters of 64 KiB is started as soon as the write has left them, also
 * as in the original: that is where the disk writes of refused calls come from, and what the undo has to wait for.
 *
 * Writes are charged to the owner of the file, whoever writes. Pages that were written by way of mmap(2) arrive later, as root, and
 * must not count as root's: they are exempt only if the owner is. The kernel takes a short count of such a write for the whole of
 * it, so what fits is kept, and the rest is said to be an error: msync(2) and fsync(2) report it then.
 */
#include "fusefs/private.h"

#include <assert.h>
#include <errno.h>

#include "base/sizes.h"

#define CLUSTER_SHIFT 16
#define FS_END (1ull << 63)

struct write {
	struct fs *fs;
	struct fs_inode *inode;
	uint64_t off;
	const char *buf;
	size_t len;
	unsigned charge_flags;
	bool late; /* pages written by way of mmap(2) */
	enum fs_rollback rollback;
	bool keep;
};

/* ---- reserve ---- */

/* Charges the @missing blocks, or shortens the write to what fits. 0, -EDQUOT, -errno. */
static int reserve_blocks(struct write *write, uint64_t missing)
{
	struct fs_inode *inode = write->inode;
	uint64_t unit = write->fs->settings.block_size, added = 0;
	unsigned flags = write->charge_flags | (write->keep ? (unsigned)QUOTA_PARTIAL : 0);
	_cleanup_(quota_charge_release) struct quota_charge charge = { 0 };

	int r = quota_charge(write->fs->quota, &inode->owner, missing * unit, 0, unit, flags, &charge);
	if (r < 0)
		return r;
	uint64_t granted = r == QUOTA_OVER_LIMIT ? 0 : charge.bytes / unit;
	if (granted < missing) {
		/* Blocks that are there already may lie before the first that does not fit. */
		if (write->keep)
			write->len = fs_blocks_covered(inode->blocks, write->off, write->len, granted);
		if (!write->keep || write->len == 0)
			return -EDQUOT;
	}
	r = fs_blocks_set(inode->blocks, write->off, write->len, &added);
	if (r < 0)
		return r;
	assert(added == granted);
	quota_charge_take(&charge);
	return 0;
}

static int write_reserved(struct write *write)
{
	struct fs_inode *inode = write->inode;
	uint64_t missing = fs_blocks_missing(inode->blocks, write->off, write->len);

	int r = missing > 0 ? reserve_blocks(write, missing) : 0;
	if (r < 0)
		return r;
	r = wb_file_write(inode->pages, write->off, write->buf, write->len);
	if (r < 0) {
		if (missing > 0)
			fs_inode_resync_locked(write->fs, inode, write->off, write->len);
		return r;
	}
	return (int)write->len;
}

/* ---- with an undo ---- */

struct undo {
	uint64_t old_size;
	uint64_t write_size;   /* how far the claim was raised */
	uint64_t added_beyond; /* blocks charged by this write that the undo would give back */
	uint64_t unsure_block; /* charged by this write, and the undo may leave nothing in it; FS_END: none */
};

/* Charges the block at @block if the file does not have it yet. */
static int allocate(struct write *write, struct undo *undo, uint64_t block, bool *ret_added)
{
	struct fs_inode *inode = write->inode;
	uint64_t unit = write->fs->settings.block_size, added;
	_cleanup_(quota_charge_release) struct quota_charge charge = { 0 };

	int r = quota_charge(write->fs->quota, &inode->owner, unit, 0, unit, write->charge_flags,
			     &charge);
	if (r == 0)
		r = fs_blocks_set(inode->blocks, block, unit, &added);
	if (r != 0)
		return r == QUOTA_OVER_LIMIT ? -EDQUOT : r;
	quota_charge_take(&charge);
	if (block >= undo->old_size)
		undo->added_beyond++;
	else if (undo->old_size - block < unit)
		undo->unsure_block = block;
	*ret_added = true;
	return 0;
}

/* The part of the write that lies in one block. */
static int write_piece(struct write *write, struct undo *undo, uint64_t pos, size_t len)
{
	struct fs_inode *inode = write->inode;
	uint64_t unit = write->fs->settings.block_size;
	uint64_t block = round_down_pow2(pos, unit), end = pos + len;
	bool whole = pos == block && (end == block + unit || end >= undo->old_size);
	bool added = false;
	int r = 0;

	undo->write_size = max_u64(undo->write_size, end);
	if (fs_blocks_missing(inode->blocks, pos, 1) > 0) {
		if (!whole)
			r = wb_file_create_pages(inode->pages, block, unit);
		if (r == 0)
			r = allocate(write, undo, block, &added);
		if (r < 0)
			return r;
	}
	r = wb_file_write(inode->pages, pos, write->buf + (pos - write->off), len);
	if (r < 0) {
		if (added && block < undo->old_size)
			undo->unsure_block = block;
		return r;
	}
	if (pos >> CLUSTER_SHIFT != end >> CLUSTER_SHIFT)
		wb_file_write_behind(inode->pages, pos >> CLUSTER_SHIFT << CLUSTER_SHIFT,
				     1u << CLUSTER_SHIFT);
	return 0;
}

/* The write failed with @err after @done bytes. What write(2) returns. */
static int undo_write(struct write *write, struct undo *undo, size_t done, int err)
{
	struct fs *fs = write->fs;
	struct fs_inode *inode = write->inode;
	uint64_t unit = fs->settings.block_size, target = undo->old_size;
	struct wb_rollback_result result;

	if (write->keep && done > 0)
		target = max_u64(target, write->off + done);
	uint64_t kept_end = round_up_pow2(target, unit);
	int r = wb_file_rollback(inode->pages, (enum wb_rollback)write->rollback, target,
				 undo->write_size, unit, &result);
	uint64_t removed = fs_blocks_clear(inode->blocks, kept_end, FS_END);
	quota_refund(fs->quota, &inode->owner, removed * unit, 0);
	/* Space that had been preallocated beyond the end may be there still, or the backing may have kept what it should not. */
	if (r < 0 || removed != undo->added_beyond)
		fs_inode_resync_locked(fs, inode, kept_end, FS_END - kept_end);
	if (undo->unsure_block < kept_end && target == undo->old_size)
		fs_inode_resync_locked(fs, inode, undo->unsure_block, unit);
	return write->keep && done > 0 ? (int)done : err;
}

static int write_with_undo(struct write *write)
{
	uint64_t unit = write->fs->settings.block_size;
	uint64_t old_size = wb_file_size(write->inode->pages);
	struct undo undo = { .old_size = old_size, .write_size = old_size, .unsure_block = FS_END };

	for (size_t done = 0; done < write->len;) {
		uint64_t pos = write->off + done;
		size_t len = (size_t)min_u64(unit - pos % unit, write->len - done);
		int r = write_piece(write, &undo, pos, len);
		if (r < 0)
			return undo_write(write, &undo, done, r);
		done += len;
		if (write->keep)
			undo.added_beyond = 0; /* kept now */
	}
	return (int)write->len;
}

/* ---- both ---- */

/* The switches, read once a write. */
static void choose_mode(struct write *write)
{
	int undo = atomic_load_explicit(&write->fs->settings.undo, memory_order_relaxed);
	write->rollback = (enum fs_rollback)atomic_load_explicit(&write->fs->settings.rollback,
								 memory_order_relaxed);
	write->keep = undo == FS_UNDO_KEEP ||
		      (undo == FS_UNDO_DEFAULT && write->rollback == FS_ROLLBACK_RESERVE);
}

/* Bytes written, or -errno. */
static int write_file(struct write *write)
{
	struct fs_inode *inode = write->inode;

	FS_CHARGE_SCOPE(write->fs);
	FS_INODE_SCOPE(inode, true);
	int r = fs_inode_load_blocks_locked(write->fs, inode);
	if (r < 0)
		return r;
	if (write->late)
		write->charge_flags = inode->owner.id[QUOTA_USER] == 0 ? QUOTA_EXEMPT : 0;
	r = write->rollback == FS_ROLLBACK_RESERVE ? write_reserved(write) : write_with_undo(write);
	/* A write that was undone has changed the file twice: the backing's times say so. */
	if (r > 0 || write->rollback != FS_ROLLBACK_RESERVE)
		fs_inode_touch(inode);
	return r;
}

void fs_do_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
		 struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, write);
	struct write write = { .fs = op.fs, .inode = fs_handle_of(fi)->inode, .off = (uint64_t)off,
			       .buf = buf, .len = size, .charge_flags = fs_charge_flags(req),
			       .late = fi->writepage };
	int r = 0;

	if (off < 0 || (size > 0 && (uint64_t)off >= op.fs->max_file_size)) {
		fs_op_reply_err(&op, EFBIG);
		return;
	}
	write.len = size = (size_t)min_u64(size, op.fs->max_file_size - (uint64_t)off);
	wb_throttle(op.fs->cache, size); /* before any lock: what it waits for may need them */
	choose_mode(&write);
	if (size > 0)
		r = fs_inode_kill_setid(op.fs, write.inode);
	if (size > 0 && r == 0)
		r = write_file(&write);
	if (r >= 0 && (size_t)r < size && write.late)
		r = -EDQUOT;
	if (r < 0) {
		fs_op_reply_err(&op, r);
		return;
	}
	op.bytes = (uint64_t)r;
	fuse_reply_write(req, (size_t)r);
}
