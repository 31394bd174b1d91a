/* SPDX-License-Identifier: MIT */
/*
 * What the backing file system says a file holds: the one definition of what is charged.
 *
 * A block is charged if any extent touches it: written, unwritten, delayed or inline, also beyond the end of the
 * file. st_blocks would be cheaper to ask for and is never used, because on ext4 it contains the extent tree itself.
 * FIEMAP is asked with FIEMAP_FLAG_SYNC: a partial tail page is written through the kernel's page cache, and some file
 * systems do not show what is not allocated yet. File systems without FIEMAP (tmpfs, NFS) answer SEEK_DATA.
 *
 * XFS allocates beyond the end of a growing file by itself, and such space becomes part of the file when that grows further, or is
 * given back when XFS likes. It stays unwritten, so there only what is written is charged, and fallocate(2) costs nothing.
 * (btrfs may fill the hole in which a file ends when the file grows: the next check shows it.)
 */
#include "fusefs/private.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/sizes.h"

#define EXTENTS_AT_ONCE 64

/* Called for each extent of a range in ascending order, clipped to it; -errno ends the walk. */
typedef int visit_extent(void *context, uint64_t off, uint64_t end);

struct extent_walk {
	int fd;
	uint64_t off, end; /* the range */
	visit_extent *visit;
	void *context;
	uint32_t skip_flags; /* extents that have one of them are not charged */
};

static int walk_visit(const struct extent_walk *walk, uint64_t off, uint64_t end)
{
	off = max_u64(off, walk->off);
	end = min_u64(end, walk->end);
	return off < end ? walk->visit(walk->context, off, end) : 0;
}

/* Fetches the next extents from *@at on and moves it behind them. 1: there may be more, 0: no, -errno. */
static int fiemap_step(const struct extent_walk *walk, uint64_t *at)
{
	_Alignas(struct fiemap) char space[sizeof(struct fiemap) +
					   EXTENTS_AT_ONCE * sizeof(struct fiemap_extent)];
	struct fiemap *map = (struct fiemap *)(void *)space;

	*map = (struct fiemap){ .fm_start = *at,
				.fm_length = walk->end - *at,
				.fm_flags = FIEMAP_FLAG_SYNC,
				.fm_extent_count = EXTENTS_AT_ONCE };
	if (ioctl(walk->fd, FS_IOC_FIEMAP, map) < 0)
		return errno == EFBIG ? 0 : -errno; /* EFBIG: beyond the largest file */
	for (uint32_t i = 0; i < map->fm_mapped_extents; i++) {
		const struct fiemap_extent *extent = &map->fm_extents[i];
		uint64_t end = extent->fe_logical + extent->fe_length;
		bool skip = extent->fe_flags & walk->skip_flags;
		int r = skip ? 0 : walk_visit(walk, extent->fe_logical, end);
		if (r < 0)
			return r;
		if (extent->fe_flags & FIEMAP_EXTENT_LAST)
			return 0;
		if (end <= *at)
			return -EIO; /* no way forward: the backing contradicts itself */
		*at = end;
	}
	return map->fm_mapped_extents > 0 && *at < walk->end;
}

static int walk_fiemap(const struct extent_walk *walk)
{
	uint64_t at = walk->off;
	int r;
	do
		r = fiemap_step(walk, &at);
	while (r > 0);
	return r;
}

static int walk_whole_size(const struct extent_walk *walk)
{
	struct stat st;
	if (fstat(walk->fd, &st) < 0)
		return -errno;
	return walk_visit(walk, 0, (uint64_t)st.st_size);
}

static int walk_seek(const struct extent_walk *walk)
{
	uint64_t at = walk->off;
	while (at < walk->end && at <= INT64_MAX) {
		off_t data = lseek(walk->fd, (off_t)at, SEEK_DATA);
		if (data < 0 && errno == EINVAL)
			return walk_whole_size(walk);
		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		off_t hole = lseek(walk->fd, data, SEEK_HOLE);
		if (hole < 0)
			return errno == ENXIO ? 0 : -errno; /* truncated meanwhile */
		int r = walk_visit(walk, (uint64_t)data, (uint64_t)hole);
		if (r < 0)
			return r;
		at = (uint64_t)hole;
	}
	return 0;
}

static bool preallocates_by_itself(int fd)
{
	struct statfs stfs;
	return fstatfs(fd, &stfs) == 0 && stfs.f_type == XFS_SUPER_MAGIC;
}

static int walk_extents(struct extent_walk *walk)
{
	if (preallocates_by_itself(walk->fd))
		walk->skip_flags = FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DELALLOC;
	int r = walk_fiemap(walk);
	if (r == -EOPNOTSUPP || r == -ENOTTY)
		r = walk_seek(walk);
	return r;
}

bool fs_blocks_charges_allocation(int fd)
{
	struct fiemap probe = { .fm_length = 1 };
	return ioctl(fd, FS_IOC_FIEMAP, &probe) == 0 && !preallocates_by_itself(fd);
}

static int set_extent(void *context, uint64_t off, uint64_t end)
{
	uint64_t added;
	return fs_blocks_set(context, off, end - off, &added);
}

static void free_blocks(struct fs_blocks **blocks)
{
	fs_blocks_free(*blocks);
}

/* A map of the extents in [off, end). */
static int load_range(int fd, uint32_t block_size, uint64_t off, uint64_t end,
		      struct fs_blocks **ret_blocks)
{
	_cleanup_(free_blocks) struct fs_blocks *blocks = NULL;
	int r = fs_blocks_new(block_size, &blocks);
	if (r < 0)
		return r;
	struct extent_walk walk = {
		.fd = fd, .off = off, .end = end, .visit = set_extent, .context = blocks
	};
	r = walk_extents(&walk);
	if (r < 0)
		return r;
	*ret_blocks = take_ptr(blocks);
	return 0;
}

int fs_blocks_load(int fd, uint32_t block_size, struct fs_blocks **ret_blocks)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size == 0 && st.st_blocks == 0) /* a new file: nothing to ask about */
		return fs_blocks_new(block_size, ret_blocks);
	return load_range(fd, block_size, 0, UINT64_MAX, ret_blocks);
}

int fs_blocks_reload(struct fs_blocks *blocks, int fd, uint64_t off, uint64_t len)
{
	uint32_t unit = fs_blocks_unit(blocks);
	uint64_t start = round_down_pow2(off, unit);
	uint64_t end = len > INT64_MAX - off ? UINT64_MAX : round_up_pow2(off + len, unit);
	_cleanup_(free_blocks) struct fs_blocks *truth = NULL;
	int r = load_range(fd, unit, start, end, &truth);
	if (r < 0)
		return r;
	/* What is there is set before what is not is cleared: short of memory, too much stays charged. */
	uint64_t data = fs_blocks_next(truth, start, true);
	while (data != UINT64_MAX) {
		uint64_t hole = fs_blocks_next(truth, data, false), added;
		r = fs_blocks_set(blocks, data, hole - data, &added);
		if (r < 0)
			return r;
		data = fs_blocks_next(truth, hole, true);
	}
	for (uint64_t at = start; at < end;) {
		data = min_u64(fs_blocks_next(truth, at, true), end);
		fs_blocks_clear(blocks, at, data - at);
		at = data == end ? end : fs_blocks_next(truth, data, false);
	}
	return 0;
}

/* Counting without a map: extents come in order, so only the last block counted can be met again. */
struct measure {
	unsigned shift;
	uint64_t next; /* the first block not counted yet */
	uint64_t count;
};

static int measure_extent(void *context, uint64_t off, uint64_t end)
{
	struct measure *measure = context;
	uint64_t first = max_u64(off >> measure->shift, measure->next);
	uint64_t last_end = ((end - 1) >> measure->shift) + 1;
	if (first < last_end)
		measure->count += last_end - first;
	measure->next = max_u64(measure->next, last_end);
	return 0;
}

int fs_blocks_measure(int fd, uint32_t block_size, uint64_t *ret_bytes)
{
	struct measure measure = { .shift = (unsigned)__builtin_ctz(block_size) };
	struct extent_walk walk = {
		.fd = fd, .end = UINT64_MAX, .visit = measure_extent, .context = &measure
	};
	int r = walk_extents(&walk);
	if (r < 0)
		return r;
	*ret_bytes = measure.count << measure.shift;
	return 0;
}
