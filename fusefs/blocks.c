/* SPDX-License-Identifier: MIT */
/*
 * The map of the blocks that one file is charged for.
 *
 * Every write asks "which blocks of this range are new?", so the answer must cost neither a system call nor
 * a walk. The map is a sorted array of chunks of 32768 blocks; an absent chunk is wholly clear. Most files grow
 * from their start without a hole, and a chunk that is one run of blocks is kept as two numbers:
 *
 *   run      blocks [from, from + count)          no bitmap; a file without holes costs 24 bytes per 128 MiB
 *   bitmap   4 KiB, count bits set in it          once a chunk has holes; random 4 KiB writes all over 256 GiB: 8 MiB
 *
 * A bitmap that becomes full turns into a run again; a chunk that becomes clear is dropped. The order is kept by
 * moving entries, 24 bytes for each chunk behind: cheaper than a tree for any file that fits on a disk.
 *
 * Where the map comes from is extents.c's job, and charging charge.c's. Guarded by inode->lock.
 */
#include "fusefs/private.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/sizes.h"

#define CHUNK_SHIFT 15
#define CHUNK_BLOCKS (1u << CHUNK_SHIFT)
#define CHUNK_MASK (CHUNK_BLOCKS - 1)
#define CHUNK_WORDS (CHUNK_BLOCKS / 64)

struct chunk {
	uint64_t index; /* in the file, in chunks */
	uint64_t *bits; /* NULL: a run */
	uint32_t from;	/* of a run */
	uint32_t count; /* blocks set: never 0 in the array */
};

struct fs_blocks {
	unsigned shift; /* log2 of the block size */
	uint64_t count;
	struct chunk *chunks; /* by index */
	size_t nr_chunks, max_chunks;
};

/* Blocks [first, end) of the file; empty when first >= end. */
struct span {
	uint64_t first, end;
};

static uint64_t range_end(uint64_t off, uint64_t len)
{
	return len > UINT64_MAX - off ? UINT64_MAX : off + len;
}

static struct span span_touching(const struct fs_blocks *blocks, uint64_t off, uint64_t len)
{
	if (len == 0)
		return (struct span){ 0, 0 };
	uint64_t last = range_end(off, len) - 1;
	return (struct span){ off >> blocks->shift, (last >> blocks->shift) + 1 };
}

static struct span span_within(const struct fs_blocks *blocks, uint64_t off, uint64_t len)
{
	uint64_t end = range_end(off, len);
	uint64_t unit = 1ull << blocks->shift;
	uint64_t end_block = end == UINT64_MAX ? (end >> blocks->shift) + 1 : end >> blocks->shift;
	return (struct span){ div_round_up(off, unit), end_block };
}

/* The part of @span that lies in chunk @index, as blocks of that chunk. */
static struct span span_in_chunk(struct span span, uint64_t index)
{
	uint64_t base = index << CHUNK_SHIFT;
	return (struct span){ max_u64(span.first, base) - base,
			      min_u64(span.end, base + CHUNK_BLOCKS) - base };
}

/* ---- words of a bitmap ---- */

/* Those bits of word @word that lie in @span (of blocks of the chunk). */
static uint64_t word_mask(uint64_t word, struct span span)
{
	uint64_t base = word * 64;
	uint64_t from = max_u64(span.first, base) - base;
	uint64_t end = min_u64(span.end, base + 64) - base;
	uint64_t below_end = end == 64 ? UINT64_MAX : (1ull << end) - 1;
	return below_end & ~((1ull << from) - 1);
}

static uint32_t bits_count(const uint64_t *bits, struct span span)
{
	uint32_t count = 0;
	for (uint64_t w = span.first / 64; w * 64 < span.end; w++)
		count += (uint32_t)__builtin_popcountll(bits[w] & word_mask(w, span));
	return count;
}

/* The first block at or after @at that is set, or clear; CHUNK_BLOCKS when there is none. */
static uint32_t bits_next(const uint64_t *bits, uint32_t at, bool set)
{
	const struct span rest = { at, CHUNK_BLOCKS };
	for (uint32_t w = at / 64; w < CHUNK_WORDS; w++) {
		uint64_t found = (set ? bits[w] : ~bits[w]) & word_mask(w, rest);
		if (found)
			return w * 64 + (uint32_t)__builtin_ctzll(found);
	}
	return CHUNK_BLOCKS;
}

static void bits_set(uint64_t *bits, struct span span)
{
	for (uint64_t w = span.first / 64; w * 64 < span.end; w++)
		bits[w] |= word_mask(w, span);
}

static void bits_clear(uint64_t *bits, struct span span)
{
	for (uint64_t w = span.first / 64; w * 64 < span.end; w++)
		bits[w] &= ~word_mask(w, span);
}

/* ---- one chunk ---- */

static struct span chunk_run(const struct chunk *chunk)
{
	return (struct span){ chunk->from, (uint64_t)chunk->from + chunk->count };
}

static uint32_t chunk_count(const struct chunk *chunk, struct span span)
{
	if (chunk->bits)
		return bits_count(chunk->bits, span);
	struct span run = chunk_run(chunk);
	uint64_t first = max_u64(run.first, span.first);
	uint64_t end = min_u64(run.end, span.end);
	return first < end ? (uint32_t)(end - first) : 0;
}

static int chunk_make_bits(struct chunk *chunk)
{
	uint64_t *bits = calloc(CHUNK_WORDS, sizeof(*bits));
	if (!bits)
		return -ENOMEM;
	bits_set(bits, chunk_run(chunk));
	chunk->bits = bits;
	return 0;
}

/* Makes sure that chunk_set() of @span cannot fail. The content stays the same. */
static int chunk_prepare_set(struct chunk *chunk, struct span span)
{
	if (chunk->bits || chunk->count == 0)
		return 0;
	struct span run = chunk_run(chunk);
	if (span.first <= run.end && run.first <= span.end)
		return 0; /* they join to one run */
	return chunk_make_bits(chunk);
}

/* Returns how many were clear. */
static uint32_t chunk_set(struct chunk *chunk, struct span span)
{
	uint32_t before = chunk->count;
	if (chunk->bits) {
		uint32_t added = (uint32_t)(span.end - span.first) - bits_count(chunk->bits, span);
		bits_set(chunk->bits, span);
		chunk->count += added;
		if (chunk->count == CHUNK_BLOCKS) {
			free(take_ptr(chunk->bits));
			chunk->from = 0;
		}
	} else {
		struct span run = before ? chunk_run(chunk) : span;
		run.first = min_u64(run.first, span.first);
		run.end = max_u64(run.end, span.end);
		chunk->from = (uint32_t)run.first;
		chunk->count = (uint32_t)(run.end - run.first);
	}
	return chunk->count - before;
}

/* Returns how many were set. A hole in the middle of a run needs a bitmap: where there is no memory for one the blocks stay
 * set, so that they stay charged: too much rather than too little, until the map is next loaded. */
static uint32_t chunk_clear(struct chunk *chunk, struct span span)
{
	uint32_t removed = chunk_count(chunk, span);
	if (removed == 0)
		return 0;
	struct span run = chunk_run(chunk);
	if (!chunk->bits && span.first > run.first && span.end < run.end &&
	    chunk_make_bits(chunk) < 0)
		return 0;
	chunk->count -= removed;
	if (chunk->bits)
		bits_clear(chunk->bits, span);
	else if (span.first <= run.first)
		chunk->from += removed;
	if (chunk->bits && chunk->count == 0)
		free(take_ptr(chunk->bits));
	return removed;
}

static uint32_t chunk_next(const struct chunk *chunk, uint32_t at, bool set)
{
	if (chunk->bits)
		return bits_next(chunk->bits, at, set);
	struct span run = chunk_run(chunk);
	bool inside = at >= run.first && at < run.end;
	if (inside == set)
		return at;
	if (!set)
		return (uint32_t)run.end;
	return at < run.first ? chunk->from : CHUNK_BLOCKS;
}

/* ---- the array ---- */

/* The position of the first chunk that is not before @index. */
static size_t chunks_find(const struct fs_blocks *blocks, uint64_t index)
{
	size_t low = 0, high = blocks->nr_chunks;
	if (high > 0 && blocks->chunks[high - 1].index <= index) /* a file that grows */
		return blocks->chunks[high - 1].index == index ? high - 1 : high;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (blocks->chunks[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct chunk *chunks_at(const struct fs_blocks *blocks, size_t pos, uint64_t index)
{
	bool there = pos < blocks->nr_chunks && blocks->chunks[pos].index == index;
	return there ? &blocks->chunks[pos] : NULL;
}

static int chunks_reserve(struct fs_blocks *blocks, uint64_t more)
{
	if (more <= blocks->max_chunks - blocks->nr_chunks)
		return 0;
	if (more > SIZE_MAX / 4)
		return -ENOMEM;
	size_t max = blocks->nr_chunks + (size_t)max_u64(more, blocks->nr_chunks / 2);
	struct chunk *chunks = reallocarray(blocks->chunks, max, sizeof(*chunks));
	if (!chunks)
		return -ENOMEM;
	blocks->chunks = chunks;
	blocks->max_chunks = max;
	return 0;
}

/* Makes the entries [pos, pos + old_nr) be new_nr entries, whose content is the caller's to fill. */
static void chunks_resize_gap(struct fs_blocks *blocks, size_t pos, size_t old_nr, size_t new_nr)
{
	assert(blocks->nr_chunks - old_nr + new_nr <= blocks->max_chunks);
	if (old_nr == new_nr)
		return;
	struct chunk *tail = blocks->chunks + pos + old_nr;
	memmove(blocks->chunks + pos + new_nr, tail,
		(blocks->nr_chunks - pos - old_nr) * sizeof(*tail));
	blocks->nr_chunks = blocks->nr_chunks - old_nr + new_nr;
}

/* Sets @span of chunk @index; the array has room and the chunk is prepared. */
static uint64_t chunks_set_one(struct fs_blocks *blocks, uint64_t index, struct span span)
{
	size_t pos = chunks_find(blocks, index);
	if (!chunks_at(blocks, pos, index)) {
		chunks_resize_gap(blocks, pos, 0, 1);
		blocks->chunks[pos] = (struct chunk){ .index = index };
	}
	return chunk_set(&blocks->chunks[pos], span);
}

/* Sets all of the chunks [first, end); the array has room. */
static uint64_t chunks_fill(struct fs_blocks *blocks, uint64_t first, uint64_t end)
{
	uint64_t added = (end - first) << CHUNK_SHIFT;
	size_t pos = chunks_find(blocks, first);
	size_t old_nr = chunks_find(blocks, end) - pos;
	for (size_t i = pos; i < pos + old_nr; i++) {
		added -= blocks->chunks[i].count;
		free(blocks->chunks[i].bits);
	}
	chunks_resize_gap(blocks, pos, old_nr, (size_t)(end - first));
	for (uint64_t index = first; index < end; index++)
		blocks->chunks[pos++] = (struct chunk){ .index = index, .count = CHUNK_BLOCKS };
	return added;
}

static int chunks_prepare_set(struct fs_blocks *blocks, struct span span, uint64_t index)
{
	struct chunk *chunk = chunks_at(blocks, chunks_find(blocks, index), index);
	return chunk ? chunk_prepare_set(chunk, span_in_chunk(span, index)) : 0;
}

/* ---- what others use ---- */

int fs_blocks_new(uint32_t block_size, struct fs_blocks **ret_blocks)
{
	assert(block_size != 0 && (block_size & (block_size - 1)) == 0);
	struct fs_blocks *blocks = calloc(1, sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	blocks->shift = (unsigned)__builtin_ctz(block_size);
	*ret_blocks = blocks;
	return 0;
}

void fs_blocks_free(struct fs_blocks *blocks)
{
	if (!blocks)
		return;
	for (size_t i = 0; i < blocks->nr_chunks; i++)
		free(blocks->chunks[i].bits);
	free(blocks->chunks);
	free(blocks);
}

uint64_t fs_blocks_count(const struct fs_blocks *blocks)
{
	return blocks->count;
}

uint32_t fs_blocks_unit(const struct fs_blocks *blocks)
{
	return 1u << blocks->shift;
}

uint64_t fs_blocks_missing(const struct fs_blocks *blocks, uint64_t off, uint64_t len)
{
	struct span span = span_touching(blocks, off, len);
	if (span.first >= span.end)
		return 0;
	uint64_t missing = span.end - span.first;
	uint64_t last = (span.end - 1) >> CHUNK_SHIFT;
	for (size_t i = chunks_find(blocks, span.first >> CHUNK_SHIFT);
	     i < blocks->nr_chunks && blocks->chunks[i].index <= last; i++) {
		const struct chunk *chunk = &blocks->chunks[i];
		missing -= chunk_count(chunk, span_in_chunk(span, chunk->index));
	}
	return missing;
}

int fs_blocks_set(struct fs_blocks *blocks, uint64_t off, uint64_t len, uint64_t *ret_added)
{
	uint64_t added = 0;
	struct span span = span_touching(blocks, off, len);
	if (span.first < span.end) {
		uint64_t first = span.first >> CHUNK_SHIFT;
		uint64_t last = (span.end - 1) >> CHUNK_SHIFT;
		if (chunks_reserve(blocks, last - first + 1) < 0 ||
		    chunks_prepare_set(blocks, span, first) < 0 ||
		    chunks_prepare_set(blocks, span, last) < 0)
			return -ENOMEM;
		added = chunks_set_one(blocks, first, span_in_chunk(span, first));
		if (last > first + 1)
			added += chunks_fill(blocks, first + 1, last);
		if (last > first)
			added += chunks_set_one(blocks, last, span_in_chunk(span, last));
	}
	blocks->count += added;
	*ret_added = added;
	return 0;
}

uint64_t fs_blocks_clear(struct fs_blocks *blocks, uint64_t off, uint64_t len)
{
	struct span span = span_within(blocks, off, len);
	if (span.first >= span.end)
		return 0;
	uint64_t removed = 0;
	uint64_t last = (span.end - 1) >> CHUNK_SHIFT;
	size_t pos = chunks_find(blocks, span.first >> CHUNK_SHIFT);
	size_t kept = pos, i = pos;
	for (; i < blocks->nr_chunks && blocks->chunks[i].index <= last; i++) {
		struct chunk *chunk = &blocks->chunks[i];
		removed += chunk_clear(chunk, span_in_chunk(span, chunk->index));
		if (chunk->count > 0)
			blocks->chunks[kept++] = *chunk;
	}
	chunks_resize_gap(blocks, kept, i - kept, 0);
	blocks->count -= removed;
	return removed;
}

uint64_t fs_blocks_next(const struct fs_blocks *blocks, uint64_t off, bool set)
{
	uint64_t block = off >> blocks->shift;
	size_t pos = chunks_find(blocks, block >> CHUNK_SHIFT);
	for (uint64_t at = block; pos < blocks->nr_chunks; pos++) {
		const struct chunk *chunk = &blocks->chunks[pos];
		uint64_t base = chunk->index << CHUNK_SHIFT;
		if (at < base) {
			if (!set)
				return max_u64(off, at << blocks->shift);
			at = base;
		}
		uint32_t found = chunk_next(chunk, (uint32_t)(at & CHUNK_MASK), set);
		at = base + found;
		if (found < CHUNK_BLOCKS)
			return max_u64(off, at << blocks->shift);
		block = at;
	}
	return set ? UINT64_MAX : max_u64(off, block << blocks->shift);
}

uint64_t fs_blocks_covered(const struct fs_blocks *blocks, uint64_t off, uint64_t len,
			   uint64_t count)
{
	uint64_t end = range_end(off, len);
	uint64_t at = off;
	for (;;) {
		uint64_t hole = fs_blocks_next(blocks, at, false);
		if (hole >= end)
			return len;
		uint64_t hole_end = min_u64(fs_blocks_next(blocks, hole, true), end);
		uint64_t first = hole >> blocks->shift;
		uint64_t in_hole = ((hole_end - 1) >> blocks->shift) + 1 - first;
		if (count < in_hole)
			return max_u64(off, (first + count) << blocks->shift) - off;
		count -= in_hole;
		if (hole_end >= end)
			return len;
		at = hole_end;
	}
}
