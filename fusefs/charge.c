/* SPDX-License-Identifier: MIT */
/*
 * What an inode is charged for, from its birth to its last close, and the times of its contents.
 *
 * The owner of a file pays for one inode and for every block that inode->blocks has set; the map and the quota change
 * together, under inode->lock and inside FS_CHARGE_SCOPE. An unlinked file is paid for until nobody has it open
 * any more; its dirty pages are then dropped, not written. Should somebody open it once again (by way of /proc, or an open that
 * raced with the unlink), it is charged again, whatever the limits: the space is in use already.
 *
 * Times: write-back comes later than the write and makes the backing's mtime later too. So the inode keeps the true mtime and
 * ctime, for as long as it is known, and mtime is written down when the file has come to rest or is synced:
 *
 *	writer				thread that completes writes
 *	wb_file_write()			last page is written
 *	fs_inode_touch(): late		clean(): no newer run of dirty pages?
 *	no clean() to come?		    then write mtime, not late
 *	    then write mtime
 *
 * Whichever comes second sees what the first one left, since both look under time_lock.
 */
#include "fusefs/private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sizes.h"

/* Beyond every file. */
#define FS_END (1ull << 63)

/* ---- the map and the charge ---- */

static int open_for_extents(struct fs *fs, struct fs_inode *inode)
{
	int fd = fs_inode_reopen(fs, inode, O_RDONLY | O_NONBLOCK);
	if (fd == -EACCES) /* not root, and the owner has made it write-only */
		fd = fs_inode_reopen(fs, inode, O_WRONLY | O_NONBLOCK);
	return fd;
}

int fs_inode_load_blocks_locked(struct fs *fs, struct fs_inode *inode)
{
	_cleanup_close_ int own = -1;
	if (inode->blocks)
		return 0;
	int fd = inode->opens > 0 ? wb_file_fd(inode->pages) : -1;
	if (fd < 0) {
		own = open_for_extents(fs, inode);
		if (own < 0)
			return own;
		fd = own;
	}
	return fs_blocks_load(fd, fs->settings.block_size, &inode->blocks);
}

int fs_inode_charged_bytes_locked(struct fs *fs, struct fs_inode *inode, uint64_t *ret_bytes)
{
	if (!S_ISREG(inode->type)) {
		*ret_bytes = 0;
		return 0;
	}
	if (inode->blocks) {
		*ret_bytes = fs_blocks_count(inode->blocks) * fs->settings.block_size;
		return 0;
	}
	_cleanup_close_ int fd = open_for_extents(fs, inode);
	if (fd < 0)
		return fd;
	return fs_blocks_measure(fd, fs->settings.block_size, ret_bytes);
}

/* The map had @before blocks set and was changed: the charge follows it. */
static void follow_map_locked(struct fs *fs, struct fs_inode *inode, uint64_t before)
{
	uint64_t now = fs_blocks_count(inode->blocks);
	uint64_t unit = fs->settings.block_size;
	if (now < before)
		quota_refund(fs->quota, &inode->owner, (before - now) * unit, 0);
	else if (now > before) /* it is there: no limit can undo that */
		quota_usage_add(fs->quota, &inode->owner, (now - before) * unit, 0);
}

int fs_inode_resync_locked(struct fs *fs, struct fs_inode *inode, uint64_t off, uint64_t len)
{
	uint64_t unit = fs->settings.block_size;
	uint64_t start = round_down_pow2(off, unit);
	uint64_t end = len > FS_END - off - unit ? FS_END : round_up_pow2(off + len, unit);
	int r = wb_file_flush(inode->pages, start, end - start);
	if (r < 0)
		return r; /* dirty pages stay, and so does their charge */
	uint64_t before = fs_blocks_count(inode->blocks);
	r = fs_blocks_reload(inode->blocks, wb_file_fd(inode->pages), start, end - start);
	follow_map_locked(fs, inode, before);
	return r;
}

int fs_charge_inode(struct fs *fs, fuse_req_t req, const struct stat *parent,
		    struct quota_charge *ret_charge)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct quota_owner owner = { .id = { ctx->uid, ctx->gid } };
	if (!fs->is_root)
		owner = (struct quota_owner){ .id = { geteuid(), getegid() } };
	if (parent->st_mode & S_ISGID)
		owner.id[QUOTA_GROUP] = parent->st_gid;
	int r = quota_charge(fs->quota, &owner, 0, 1, 0, fs_charge_flags(req), ret_charge);
	return r == QUOTA_OVER_LIMIT ? -EDQUOT : r;
}

/* ---- pages and descriptors ---- */

/* For writing too, whoever opens it: others may follow who write. */
static int open_backing(struct fs *fs, struct fs_inode *inode)
{
	int fd = fs->read_only ? -EROFS : fs_inode_reopen(fs, inode, O_RDWR);
	if (fd == -EROFS || fd == -EACCES || fd == -EPERM || fd == -ETXTBSY)
		fd = fs_inode_reopen(fs, inode, O_RDONLY);
	return fd;
}

/* Somebody opened what was given back already. */
static int recharge_locked(struct fs *fs, struct fs_inode *inode)
{
	uint64_t bytes;
	int r = fs_inode_charged_bytes_locked(fs, inode, &bytes);
	if (r < 0)
		return r;
	quota_usage_add(fs->quota, &inode->owner, bytes, 1);
	inode->refunded = false;
	return 0;
}

int fs_inode_adopt_pages_locked(struct fs *fs, struct fs_inode *inode, int fd)
{
	_cleanup_close_ int owned = fd;
	if (!inode->pages) {
		struct stat st;
		if (fstat(fd, &st) < 0)
			return -errno;
		inode->fs = fs;
		int r = wb_file_new(fs->cache, inode->ino, (uint64_t)st.st_size, &fs_page_ops, inode,
				    &inode->pages);
		if (r < 0)
			return r;
	}
	if (inode->refunded) {
		int r = recharge_locked(fs, inode);
		if (r < 0)
			return r;
	}
	if (!wb_file_get(inode->pages))
		wb_file_set_fd(inode->pages, take_fd(&owned));
	inode->opens++;
	return 0;
}

int fs_inode_open_pages_locked(struct fs *fs, struct fs_inode *inode)
{
	if (inode->pages) {
		if (wb_file_get(inode->pages)) {
			inode->opens++;
			return 0;
		}
		wb_file_put(inode->pages);
	}
	int fd = open_backing(fs, inode);
	return fd < 0 ? fd : fs_inode_adopt_pages_locked(fs, inode, fd);
}

static void drop_pages_locked(struct fs *fs, struct fs_inode *inode)
{
	struct wb_file *pages = inode->pages;
	if (!pages)
		return;
	lock_take(&inode->time_lock);
	inode->mtime_late = false; /* a clean() that is under way must not use descriptors that are being closed */
	lock_release(&inode->time_lock);
	inode->pages = NULL;
	if (!wb_file_free(pages))
		return;
	lock_take(&inode->time_lock);
	inode->dirty_runs--;
	lock_release(&inode->time_lock);
	fs_inode_unhold(fs, inode);
}

/* Nobody can reach an unlinked inode any more. */
static void bury_locked(struct fs *fs, struct fs_inode *inode)
{
	uint64_t bytes = 0;
	if (!inode->refunded) {
		int r = fs_inode_charged_bytes_locked(fs, inode, &bytes);
		if (r < 0)
			log_error("inode %llu: cannot tell what it held, usage of uid %u is too high until quotacheck: %s",
				  (unsigned long long)inode->ino, inode->owner.id[QUOTA_USER],
				  strerror(-r));
		quota_refund(fs->quota, &inode->owner, bytes, 1);
		inode->refunded = true;
	}
	drop_pages_locked(fs, inode);
}

void fs_inode_close_pages_locked(struct fs *fs, struct fs_inode *inode)
{
	assert(inode->opens > 0);
	inode->opens--;
	wb_file_put(inode->pages);
	if (inode->opens == 0 && inode->unlinked)
		bury_locked(fs, inode);
}

void fs_inode_unlinked(struct fs *fs, struct fs_inode *inode)
{
	FS_INODE_SCOPE(inode, true);
	inode->unlinked = true;
	if (inode->opens == 0)
		bury_locked(fs, inode);
}

/* ---- owner and size ---- */

static void move_back(struct fs *fs, const struct quota_owner *from, const struct quota_owner *to,
		      uint64_t bytes)
{
	if (quota_transfer(fs->quota, from, to, bytes, 1, QUOTA_EXEMPT) == 0)
		return;
	quota_usage_add(fs->quota, to, bytes, 1); /* it had been there before: no limit applies */
	quota_refund(fs->quota, from, bytes, 1);
}

static int chown_locked(struct fs *fs, struct fs_inode *inode, const struct quota_owner *to,
			unsigned flags)
{
	_cleanup_fs_fd_ struct fs_fd fd = { 0 };
	const struct quota_owner from = inode->owner;
	bool moves = memcmp(&from, to, sizeof(from)) != 0 && !inode->refunded;
	uint64_t bytes = 0;
	int r = fs_inode_fd(fs, inode, &fd);
	if (r == 0 && moves)
		r = fs_inode_charged_bytes_locked(fs, inode, &bytes);
	if (r == 0 && moves)
		r = quota_transfer(fs->quota, &from, to, bytes, 1, flags);
	if (r != 0)
		return r == QUOTA_OVER_LIMIT ? -EDQUOT : r;
	/* Also when nothing moves: it clears setuid bits and sets ctime. */
	if (fchownat(fd.fd, "", to->id[QUOTA_USER], to->id[QUOTA_GROUP], AT_EMPTY_PATH) < 0) {
		r = -errno;
		if (moves)
			move_back(fs, to, &from, bytes);
		return r;
	}
	inode->owner = *to;
	return 0;
}

int fs_inode_chown(struct fs *fs, struct fs_inode *inode, uid_t uid, gid_t gid, unsigned flags)
{
	FS_CHARGE_SCOPE(fs);
	FS_INODE_SCOPE(inode, true);
	struct quota_owner to = inode->owner;
	if (uid != (uid_t)-1)
		to.id[QUOTA_USER] = uid;
	if (gid != (gid_t)-1)
		to.id[QUOTA_GROUP] = gid;
	return chown_locked(fs, inode, &to, flags);
}

/* Whether a block that holds the last byte of a file must hold something on the backing as well. */
static bool tail_is_sure(const struct fs *fs, struct fs_inode *inode)
{
	struct statvfs stv;
	return fs->settings.block_size <= WB_PAGE_SIZE &&
	       fstatvfs(wb_file_fd(inode->pages), &stv) == 0 && stv.f_bsize >= fs->settings.block_size;
}

static int truncate_locked(struct fs *fs, struct fs_inode *inode, uint64_t size)
{
	uint64_t old_size = wb_file_size(inode->pages);
	int r = fs_inode_load_blocks_locked(fs, inode);
	if (r < 0)
		return r;
	r = wb_file_truncate(inode->pages, size);
	if (r < 0) {
		fs_inode_resync_locked(fs, inode, 0, FS_END);
		return r;
	}
	fs_inode_touch(inode);
	if (size > old_size)
		return 0; /* a hole costs nothing, and what was preallocated beyond the end stays */
	/* The last block may have held data only behind the new end, where the backing's blocks are smaller; and what was preallocated stays on
	 * the backing if that has never seen the size we come from. So the backing is asked, unless there is nothing to lose. */
	uint64_t unit = fs->settings.block_size;
	uint64_t from = round_up_pow2(size, unit);
	if (from != size && !tail_is_sure(fs, inode))
		from -= unit;
	if (fs_blocks_next(inode->blocks, from, true) == UINT64_MAX)
		return 0;
	r = fs_inode_resync_locked(fs, inode, from, FS_END - from);
	if (r == 0)
		return 0;
	/* The size is changed and cannot be unchanged; what is surely gone is given back. */
	uint64_t gone = fs_blocks_clear(inode->blocks, round_up_pow2(size, unit), FS_END);
	quota_refund(fs->quota, &inode->owner, gone * unit, 0);
	return 0;
}

int fs_inode_truncate(struct fs *fs, struct fs_inode *inode, uint64_t size)
{
	if (!S_ISREG(inode->type))
		return S_ISDIR(inode->type) ? -EISDIR : -EINVAL;
	if (size > INT64_MAX)
		return -EFBIG;
	FS_CHARGE_SCOPE(fs);
	FS_INODE_SCOPE(inode, true);
	int r = fs_inode_open_pages_locked(fs, inode);
	if (r < 0)
		return r;
	r = truncate_locked(fs, inode, size);
	fs_inode_close_pages_locked(fs, inode);
	return r;
}

/* ---- times ---- */

int fs_inode_settle_times(struct fs_inode *inode)
{
	struct wb_file *pages = inode->pages;
	if (!pages)
		return 0;
	/* Under the lock: a change of times by utimensat(2) must not be overwritten by what was true before. */
	LOCK_SCOPE(&inode->time_lock);
	if (!inode->mtime_late)
		return 0;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, inode->mtime };
	int fd = wb_file_fd(pages);
	if (fd >= 0 && futimens(fd, times) < 0)
		return -errno;
	inode->mtime_late = inode->dirty_runs > 0;
	return 0;
}

/* The coarse clock is the one the kernel stamps files with: ours must compare with those the backing stamps. */
void fs_inode_touch(struct fs_inode *inode)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	lock_take(&inode->time_lock);
	inode->mtime = inode->ctime = now;
	inode->times_cached = inode->mtime_late = true;
	bool rest = inode->dirty_runs == 0;
	lock_release(&inode->time_lock);
	if (rest)
		fs_inode_settle_times(inode);
}

static void pages_dirty(void *owner)
{
	struct fs_inode *inode = owner;
	fs_inode_hold(inode->fs, inode);
	LOCK_SCOPE(&inode->time_lock);
	inode->dirty_runs++;
}

static void pages_clean(void *owner)
{
	struct fs_inode *inode = owner;
	lock_take(&inode->time_lock);
	assert(inode->dirty_runs > 0);
	bool rest = --inode->dirty_runs == 0;
	lock_release(&inode->time_lock);
	if (rest)
		fs_inode_settle_times(inode);
	fs_inode_unhold(inode->fs, inode); /* may be its end */
}

const struct wb_file_ops fs_page_ops = { .dirty = pages_dirty, .clean = pages_clean };
