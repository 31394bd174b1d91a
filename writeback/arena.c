/* SPDX-License-Identifier: MIT */
/*
 * The arena: where frames come from.
 *
 * Two reserved ranges of addresses, one of descriptors and one of bytes, of which cache_bytes says how much may be in use. Frames
 * are handed out in ascending order, so that a sequential write is contiguous in memory and goes to the device as one
 * iovec. Frames that were used before come first, since their memory is there.
 *
 * Memory for frames that were never used is asked for a little ahead of the writers, by a thread of its own: a page
 * fault in the copy loop costs more than the copy.
 */
#include "writeback/private.h"

#include <sys/mman.h>

/* Frames populated ahead of the last one handed out, and in one go: 16 MiB and 2 MiB. */
#define POPULATE_AHEAD 4096u
#define POPULATE_STEP 512u

/* How long a writer waits for a frame after shutdown has begun while nothing is on its way. */
#define HOPE_NS (2 * NSEC_PER_SEC)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static void *reserve(size_t bytes)
{
	void *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);
	return range == MAP_FAILED ? NULL : range;
}

static size_t arena_page_bytes(const struct wb_arena *arena)
{
	return ((size_t)arena->nr_max + 1) * sizeof(struct wb_page);
}

static size_t arena_data_bytes(const struct wb_arena *arena)
{
	return ((size_t)arena->nr_max + 1) * WB_PAGE_SIZE;
}

/* How far pages should have been populated by now. */
static uint32_t populate_goal_locked(struct wb_arena *arena)
{
	uint32_t limit = atomic_load_explicit(&arena->nr_limit, memory_order_relaxed);
	uint32_t ahead = limit / 8 < POPULATE_AHEAD ? limit / 8 : POPULATE_AHEAD;
	uint64_t goal = (uint64_t)arena->nr_touched + ahead;

	if (goal > limit)
		goal = limit;
	return goal < arena->nr_max ? (uint32_t)goal : arena->nr_max;
}

/* Backs the next frames with memory; false: the kernel cannot (before Linux 5.14), and writers fault them in themselves. */
static bool populate(struct wb_arena *arena, uint32_t from, uint32_t nr)
{
	return madvise(arena->data + ((size_t)from + 1) * WB_PAGE_SIZE, (size_t)nr * WB_PAGE_SIZE,
		       MADV_POPULATE_WRITE) == 0;
}

static void *populate_main(void *arg)
{
	struct wb_arena *arena = arg;

	pthread_setname_np(pthread_self(), "chokefs-arena");
	LOCK_SCOPE(&arena->lock);
	while (!arena->stop) {
		uint32_t from = arena->nr_populated > arena->nr_touched ? arena->nr_populated : arena->nr_touched;
		if (arena->nr_touched == 0 || populate_goal_locked(arena) < from + POPULATE_STEP) {
			cond_wait(&arena->wanted, &arena->lock);
			continue;
		}
		lock_release(&arena->lock);
		bool ok = populate(arena, from, POPULATE_STEP);
		lock_take(&arena->lock);
		arena->nr_populated = ok ? from + POPULATE_STEP : UINT32_MAX - POPULATE_STEP;
	}
	return NULL;
}

static size_t arena_aside_bytes(const struct wb_arena *arena)
{
	uint32_t slots = 1;

	while (slots < arena->nr_max && slots < 1u << 31)
		slots *= 2;
	return (size_t)slots * sizeof(*arena->aside);
}

static void unreserve(struct wb_arena *arena)
{
	if (arena->page)
		munmap(arena->page, arena_page_bytes(arena));
	if (arena->data)
		munmap(arena->data, arena_data_bytes(arena));
	if (arena->aside)
		munmap(arena->aside, arena_aside_bytes(arena));
}

void wb_arena_set_limit(struct wb_arena *arena, uint64_t limit_bytes)
{
	uint32_t limit = (uint32_t)(limit_bytes / WB_PAGE_SIZE), slots = 1;

	/* One to two slots a page that may be resident: 4 to 8 bytes. */
	while (slots < limit && slots < 1u << 31)
		slots *= 2;
	atomic_store(&arena->aside_mask, slots - 1);
	atomic_store(&arena->nr_limit, limit);
}

int wb_arena_init(struct wb_arena *arena, uint64_t limit_bytes)
{
	uint64_t nr_max = wb_cache_max_bytes() / WB_PAGE_SIZE;

	if (nr_max >= UINT32_MAX)
		nr_max = UINT32_MAX - 1;
	*arena = (struct wb_arena){ .nr_max = (uint32_t)nr_max };
	arena->page = reserve(arena_page_bytes(arena));
	if (!arena->page)
		return -ENOMEM;
	arena->data = reserve(arena_data_bytes(arena));
	arena->aside = reserve(arena_aside_bytes(arena));
	/* Descents jump about in these: in small pages each step would miss the TLB as well. A kernel without huge pages says no,
	 * and that is all. Not for the bytes: with defrag=madvise a fault there compacts memory first. */
	(void)madvise(arena->page, arena_page_bytes(arena), MADV_HUGEPAGE);
	if (arena->aside)
		(void)madvise((void *)arena->aside, arena_aside_bytes(arena), MADV_HUGEPAGE);
	if (!arena->data || !arena->aside) {
		unreserve(arena);
		return -ENOMEM;
	}
	lock_init(&arena->lock);
	cond_init(&arena->wanted);
	wb_arena_set_limit(arena, limit_bytes);
	int r = pthread_create(&arena->thread, NULL, populate_main, arena);
	if (r != 0) {
		arena->stop = true;
		wb_arena_fini(arena);
	}
	return -r;
}

static void populate_stop(struct wb_arena *arena)
{
	lock_take(&arena->lock);
	bool running = !arena->stop;
	arena->stop = true;
	cond_wake_all(&arena->wanted);
	lock_release(&arena->lock);
	if (running)
		pthread_join(arena->thread, NULL);
}

void wb_arena_fini(struct wb_arena *arena)
{
	populate_stop(arena);
	cond_fini(&arena->wanted);
	unreserve(arena);
	lock_fini(&arena->lock);
}

void wb_arena_trim(struct wb_arena *arena)
{
	/* A system call a frame: not under the lock that every writer needs. Meanwhile they get frames that were never used. */
	lock_take(&arena->lock);
	uint32_t head = arena->free_head, nr = arena->nr_free, last = 0;
	arena->free_head = 0;
	arena->nr_free = 0;
	lock_release(&arena->lock);
	for (uint32_t id = head; id; last = id, id = arena->page[id].dirty_next)
		madvise(arena->data + (size_t)id * WB_PAGE_SIZE, WB_PAGE_SIZE, MADV_DONTNEED);
	if (!last)
		return;
	lock_take(&arena->lock);
	arena->page[last].dirty_next = arena->free_head;
	arena->free_head = head;
	arena->nr_free += nr;
	lock_release(&arena->lock);
}

unsigned wb_arena_take(struct wb_arena *arena, unsigned want, uint32_t *ids)
{
	LOCK_SCOPE(&arena->lock);
	uint32_t used = atomic_load_explicit(&arena->nr_used, memory_order_relaxed);
	uint32_t limit = atomic_load_explicit(&arena->nr_limit, memory_order_relaxed);
	unsigned nr = 0;

	while (nr < want && used + nr < limit) {
		uint32_t id = arena->free_head;
		if (id) {
			arena->free_head = arena->page[id].dirty_next;
			arena->page[id].dirty_next = 0;
			arena->nr_free--;
		} else if (arena->nr_touched < arena->nr_max) {
			id = ++arena->nr_touched;
		} else {
			break;
		}
		ids[nr++] = id;
	}
	atomic_store_explicit(&arena->nr_used, used + nr, memory_order_relaxed);
	if (populate_goal_locked(arena) >= arena->nr_populated + POPULATE_STEP)
		cond_wake_all(&arena->wanted);
	return nr;
}

void wb_arena_give(struct wb_arena *arena, const uint32_t *ids, unsigned nr)
{
	LOCK_SCOPE(&arena->lock);
	/* Backwards, so that they come out again in the order in which they were taken. */
	for (unsigned i = nr; i-- > 0;) {
		struct wb_page *page = &arena->page[ids[i]];
		assert(wb_page_state(page) == WB_PAGE_FREE);
		page->dirty_next = arena->free_head;
		arena->free_head = ids[i];
	}
	arena->nr_free += nr;
	atomic_fetch_sub_explicit(&arena->nr_used, nr, memory_order_relaxed);
}

/* At the end, with all that is resident dirty and a backing that takes none of it, no frame will ever come free. */
static bool is_hopeless_locked(struct wb_cache *cache, uint64_t since_ns)
{
	lock_assert_held(&cache->lock);
	return cache->shutdown && atomic_load(&cache->nr_writeback) == 0 &&
	       clock_now_ns() - since_ns > HOPE_NS;
}

unsigned wb_page_alloc(struct wb_cache *cache, unsigned want, bool wait, uint32_t *ids)
{
	uint64_t start_ns = 0;

	for (;;) {
		unsigned nr = wb_arena_take(&cache->arena, want, ids);
		if (nr > 0)
			return nr;
		if (wb_reclaim(cache, want > 64 ? want : 64) > 0)
			continue;
		if (!wait)
			return 0;
		if (start_ns == 0)
			start_ns = clock_now_ns();
		/* All that is resident is dirty, in flight or pinned: as a writer over the limit, poll and wait. */
		wb_flusher_poll(cache);
		LOCK_SCOPE(&cache->lock);
		if (is_hopeless_locked(cache, start_ns))
			return 0;
		atomic_fetch_add(&cache->nr_waiting, 1);
		cond_wait_until(&cache->throttled, &cache->lock, clock_now_ns() + 10 * NSEC_PER_MSEC);
		atomic_fetch_sub(&cache->nr_waiting, 1);
	}
}
