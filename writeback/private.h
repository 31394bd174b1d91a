/* SPDX-License-Identifier: MIT */
/*
 * What the files of writeback/ share: pages, files, the cache. The device's side is in device.h.
 */
#ifndef WRITEBACK_PRIVATE_H
#define WRITEBACK_PRIVATE_H

#include "base/list.h"
#include "base/lock.h"
#include "writeback/device.h"
#include "writeback/writeback.h"

/* ---- page.c and arena.c: pages and where they come from ----
 *
 * A page is named by its number in the arena: 0 is nobody. Links are numbers too, so that the bookkeeping of a page, its place in
 * the ordered index and on two lists included, is one cache line.
 */

enum wb_page_state {
	WB_PAGE_FREE,	   /* in the arena; taken by wb_arena_alloc() */
	WB_PAGE_CLEAN,	   /* as on the backing (or a hole's zeroes); reclaim may free it */
	WB_PAGE_DIRTY,	   /* newer than the backing, on the file's dirty list */
	WB_PAGE_WRITEBACK, /* on its way to the device */
	WB_PAGE_REDIRTIED, /* on its way, and written to again meanwhile: on the dirty list too */
	WB_PAGE_STATES,
};

enum wb_page_flags {
	WB_PAGE_RED = 1 << 0,	     /* colour in the index */
	WB_PAGE_REFERENCED = 1 << 1, /* second chance: used since the hand last came by */
	WB_PAGE_FILLING = 1 << 2,    /* being read from the backing: wait */
	WB_PAGE_DETACHED = 1 << 3,   /* no longer the file's; freed by the last unpin */
};

/* Locks: f the file's lock   a the arena's while FREE, the file's otherwise */
struct wb_page {
	/* What a descent of the index reads comes first, together. */
	uint64_t index;			  /* [f] offset / WB_PAGE_SIZE */
	uint32_t left, right, parent;	  /* [f] ordered index */
	uint32_t epoch;			  /* [f] file->epoch when it became dirty: what a sync must write */
	_Atomic(struct wb_file *) file;	  /* [f] read without it by reclaim, which then checks again */
	uint32_t res_prev, res_next;	  /* [f] resident list, in the order of arrival */
	uint32_t dirty_prev, dirty_next;  /* [a] dirty list, oldest first; free list */
	_Atomic uint32_t dirtied_ms;	  /* [f] cache time when it became dirty; read without it by statistics */
	uint16_t pins;			  /* [f] reads that point at its bytes */
	_Atomic uint8_t state;		  /* [f] enum wb_page_state; changed by wb_page_move() alone */
	_Atomic uint8_t flags;		  /* [f] */
};
_Static_assert(sizeof(struct wb_page) <= 64, "a page's bookkeeping is one cache line");

struct wb_arena {
	struct wb_page *page;	/* [I] nr_max + 1 of them; 0 is nobody */
	char *data;		/* [I] page n's bytes are at data + n * WB_PAGE_SIZE */
	_Atomic uint32_t *aside; /* [I] look-aside of the indexes: index.c */
	_Atomic uint32_t aside_mask; /* its slots in use, a power of two, less one */
	uint32_t nr_max;	/* [I] */
	struct lock lock;
	uint32_t nr_touched;	/* [lock] pages ever handed out: 1 .. nr_touched */
	uint32_t free_head;	/* [lock] */
	uint32_t nr_free;	/* [lock] on the free list */
	uint32_t nr_populated;	/* [lock] frames that have memory, as far as the thread knows */
	struct cond wanted;	/* with lock: more should be populated */
	pthread_t thread;	/* [I] that does it */
	bool stop;		/* [lock] */
	uint32_t hand;		/* [reclaim_lock] of the clock */
	_Atomic uint32_t nr_used;   /* pages in files or about to be */
	_Atomic uint32_t nr_limit;  /* cache_bytes in pages */
};

/* ---- gate.c ---- */

/* Locks: g its lock   a atomic */
struct wb_gate {
	struct lock lock;
	struct cond eased;
	_Atomic int mode;	       /* [a] enum wb_congestion */
	_Atomic uint64_t on, off;      /* [a] pages */
	_Atomic uint64_t outstanding;  /* [a] pages under write-back */
	_Atomic bool congested;	       /* [a] */
	bool shutdown;		       /* [g] nobody waits any more */
	_Atomic uint64_t times_congested, passes_skipped, waits, wait_ns;
};

enum wb_gate_verdict {
	WB_GATE_OPEN,
	WB_GATE_SKIPPED = 1,
};

void wb_gate_init(struct wb_gate *gate);
void wb_gate_fini(struct wb_gate *gate);
void wb_gate_configure(struct wb_gate *gate, enum wb_congestion mode, uint64_t on_kb);
/** Asked on entry to a pass that is not for data integrity. OPEN, or SKIPPED; in block mode it waits first. */
enum wb_gate_verdict wb_gate_enter(struct wb_gate *gate);
void wb_gate_add(struct wb_gate *gate, uint64_t pages);
/** True when this eased the congestion. */
bool wb_gate_sub(struct wb_gate *gate, uint64_t pages);
void wb_gate_shutdown(struct wb_gate *gate);
/** The kernel's nfs_congestion_kb for this machine: min(16 * sqrt(pages of RAM) pages in KiB, 256 MiB). */
uint64_t wb_gate_default_kb(void);

/* ---- cache.c ---- */

struct wb_flusher {
	pthread_t thread;
	struct cond wake;	 /* with cache->lock */
	bool running;		 /* [c] the thread exists */
	_Atomic bool sleeping;	 /* not in a pass: a poll may wake it */
	_Atomic bool stalled;	 /* it went to sleep with too much dirty: no progress */
	bool kicked;		 /* [c] somebody asked for background work */
	_Atomic uint64_t passes, pages, wakeups_poll, wakeups_timer, wakeups_gate;
	_Atomic uint64_t last_poll_ns; /* when a throttled writer last woke it */
	_Atomic uint64_t bandwidth;    /* bytes per second, measured */
	uint64_t bw_time_ns, bw_bytes; /* the flusher's own */
	uint64_t timer_ns;	       /* its own: when the timer fires, */
	uint32_t timer_cs;	       /* counted with this period */
};

/*
 * Order of locks: files_lock, file->lock, cache->lock, arena.lock. gate.lock is a leaf. Reclaim holds
 * files_lock and only tries file->lock.
 */
struct wb_cache {
	struct wb_arena arena;
	struct wb_gate gate;
	struct wb_flusher flusher;
	struct wb_device *device;   /* [I] */
	uint64_t start_ns;	    /* [I] */

	struct lock config_lock;
	struct wb_config config;    /* [config_lock] */
	_Atomic uint64_t dirty_limit, dirty_background; /* pages, as in force */
	_Atomic uint64_t pass_bytes, congestion_on_bytes;
	_Atomic uint32_t expire_cs, period_cs, restart_poll_ms;

	struct lock files_lock;
	struct list files;	    /* [files_lock] all of them */
	uint64_t nr_files;	    /* [files_lock] */
	struct lock reclaim_lock;   /* one hand at a time; outside files_lock */

	struct lock lock;
	struct list dirty_files;    /* [c] the line the flusher works through */
	struct cond throttled;	    /* [c] writers over the limit, and those out of memory */
	_Atomic uint32_t nr_waiting; /* of them */
	struct list line;	    /* [c] writers held in the throttle, first come first */
	_Atomic uint32_t nr_in_line; /* of them */
	bool shutdown;		    /* [c] nobody is held back any more */
	bool stop;		    /* [c] threads end */

	struct lock waiting_lock;   /* orders what the device is told of waiting pages */
	_Atomic uint64_t nr_dirty, nr_writeback; /* pages; REDIRTIED counts in both, as in Linux */
	_Atomic uint64_t reclaimed, created;
	_Atomic uint64_t pauses, pause_ns;
	_Atomic uint64_t rb_count, rb_visited, rb_freed, rb_by_list, rb_by_tree, rb_time_ns, rb_lock_ns;
};

/** Milliseconds of this cache's life, wrapping. */
uint32_t wb_cache_time_ms(struct wb_cache *cache);
/** Wakes whoever waits in the throttle or for memory, if anybody does. */
void wb_cache_wake_waiting(struct wb_cache *cache);

/* Locks: I immutable   a atomic   f this file's lock   c cache->lock   F cache->files_lock */
struct wb_file {
	struct lock lock;
	struct cond changed;	     /* [f] write-back ended, a page was filled or unpinned */
	struct wb_cache *cache;	     /* [I] */
	uint64_t ino;		     /* [I] */
	const struct wb_file_ops *ops; /* [I] */
	void *owner;		     /* [I] */
	_Atomic uint32_t refs;	     /* [a] the owner's, and one per pass or sync */
	struct list files_link;	     /* [F] */
	struct list dirty_link;	     /* [c] linked iff nr_dirty > 0 */

	uint32_t root;		     /* [f] ordered index */
	uint32_t hint;		     /* [f] the page last found */
	uint32_t gap_parent;	     /* [f] where a search for gap_index ended without finding it; */
	uint64_t gap_index;	     /* [f] UINT64_MAX: not known any more */
	uint32_t res_head, res_tail; /* [f] */
	_Atomic uint32_t dirty_head; /* [f] DIRTY and REDIRTIED, by time; read without it by statistics */
	uint32_t dirty_tail;	     /* [f] */
	uint64_t nr_resident;	     /* [f] */
	uint64_t nr_dirty;	     /* [f] on the dirty list */
	uint64_t nr_inflight;	     /* [f] WRITEBACK and REDIRTIED */
	uint32_t epoch;		     /* [f] raised by each sync */
	int64_t owed_dirty, owed_writeback; /* [f] not yet in the cache's counters; */
	uint64_t owed_created;	     /* [f] zero while the lock is free */
	struct list ios;	     /* [f] wb_run in flight, by submission */
	uint64_t run_seq;	     /* [f] of the newest */

	_Atomic uint64_t size;	     /* [f] read without it */
	uint64_t backing_size;	     /* [f] how far the backing has bytes: beyond are zeroes */
	int fd, fd_direct;	     /* [f] -1: not open; direct -1: the backing cannot */
	bool no_direct;		     /* [f] the backing has refused an aligned O_DIRECT write */
	uint32_t redo_seq;	     /* [f] how many runs it has so returned */
	uint32_t users;		     /* [f] of the descriptors */
	uint32_t writers;	     /* [f] inside wb_file_write(): clean() waits */
	bool told_dirty;	     /* [f] ops->dirty() was called last */
	bool dead;		     /* [f] wb_file_free() has begun */

	int err;		     /* [f] last write-back error */
	uint32_t err_seq;	     /* [f] how many there were */
	bool err_seen;		     /* [f] somebody was told of the last */
	uint32_t err_backoff_ms;     /* [f] 0: the last write-back went well */
	uint32_t err_retry_ms;	     /* [f] cache time before which the flusher leaves the file alone */
};

static inline struct wb_page *wb_page(struct wb_cache *cache, uint32_t id)
{
	return &cache->arena.page[id];
}

static inline char *wb_page_data(struct wb_cache *cache, uint32_t id)
{
	return cache->arena.data + (size_t)id * WB_PAGE_SIZE;
}

static inline bool wb_page_flag(struct wb_page *page, enum wb_page_flags flag)
{
	return atomic_load_explicit(&page->flags, memory_order_relaxed) & flag;
}

/* Flags are atomic because reclaim looks at them without the lock; all writers hold it. */
static inline void wb_page_set_flag(struct wb_page *page, enum wb_page_flags flag, bool on)
{
	uint8_t flags = atomic_load_explicit(&page->flags, memory_order_relaxed);
	flags = (uint8_t)(on ? flags | flag : flags & ~flag);
	atomic_store_explicit(&page->flags, flags, memory_order_relaxed);
}

static inline enum wb_page_state wb_page_state(struct wb_page *page)
{
	return (enum wb_page_state)atomic_load_explicit(&page->state, memory_order_relaxed);
}

int wb_arena_init(struct wb_arena *arena, uint64_t limit_bytes);
void wb_arena_fini(struct wb_arena *arena);
/** Changes cache_bytes; what is in use beyond it stays until it is reclaimed. */
void wb_arena_set_limit(struct wb_arena *arena, uint64_t limit_bytes);
/** Up to @want pages into @ids, FREE and the caller's; how many. None means that the limit is reached. */
unsigned wb_arena_take(struct wb_arena *arena, unsigned want, uint32_t *ids);
/** Gives back pages that are FREE and in no file. */
void wb_arena_give(struct wb_arena *arena, const uint32_t *ids, unsigned nr);
/** Returns the memory of frames that nobody uses. */
void wb_arena_trim(struct wb_arena *arena);
/** As wb_arena_take(), reclaiming and, with @wait, waiting until at least one is there. 0 only without @wait, or after
 *  wb_cache_shutdown_begin() when nothing can be written back any more. */
unsigned wb_page_alloc(struct wb_cache *cache, unsigned want, bool wait, uint32_t *ids);

/** Changes a page's state; dies of a move that the table does not know. Keeps lists and counters. */
void wb_page_move_locked(struct wb_file *file, uint32_t id, enum wb_page_state to);
/** The same, but the cache's counters are owed until wb_file_count_locked(), which must come before the lock is given up: one
 *  atomic operation a write instead of one a page. */
void wb_page_move_owed_locked(struct wb_file *file, uint32_t id, enum wb_page_state to);
void wb_file_count_locked(struct wb_file *file);
/** Makes a FREE page the file's, CLEAN; owes a count. */
void wb_page_attach_locked(struct wb_file *file, uint32_t id, uint64_t index);
/** Takes a CLEAN or DIRTY page out of the file and frees it, now or at the last unpin. */
void wb_page_drop_locked(struct wb_file *file, uint32_t id);
void wb_page_unpin_locked(struct wb_file *file, uint32_t id);

/* reclaim.c */
/** Second chance: frees up to @want clean pages that were not used since the hand last came by. How many. */
unsigned wb_reclaim(struct wb_cache *cache, unsigned want);

/* index.c: a red-black tree over page numbers */
uint32_t wb_index_find_locked(struct wb_file *file, uint64_t index);
/** The first page at or after @index. */
uint32_t wb_index_from_locked(struct wb_file *file, uint64_t index);
uint32_t wb_index_next(struct wb_cache *cache, uint32_t id);
uint32_t wb_index_prev(struct wb_cache *cache, uint32_t id);
void wb_index_insert_locked(struct wb_file *file, uint32_t id);
void wb_index_remove_locked(struct wb_file *file, uint32_t id);

/* file.c */
void wb_file_ref(struct wb_file *file);
void wb_file_unref(struct wb_file *file);
/** Calls ops->clean() and closes descriptors when the file has come to rest. No lock held. */
void wb_file_settle(struct wb_file *file);
/** Reads pages [first, first + nr) of the backing into the frames @ids, zeroes where it has none. No lock held. */
int wb_file_fill(struct wb_file *file, uint64_t first, unsigned nr, const uint32_t *ids);
void wb_file_record_error_locked(struct wb_file *file, int err);

/* run.c: adjacent dirty pages become one vectored write */
#define WB_RUN_PAGES 256

/** What one collection may take. */
struct wb_collect {
	uint64_t max_pages;
	uint64_t first, end;  /* page range, end exclusive */
	uint32_t epoch;	      /* only pages dirtied at or before it, */
	bool by_epoch;	      /* if this says so */
	uint32_t before_ms;   /* only pages dirtied before it, */
	bool by_age;	      /* if this says so */
};
/** Turns dirty pages, oldest first, into runs on @ios, WRITEBACK. How many pages. */
uint64_t wb_run_collect_locked(struct wb_file *file, const struct wb_collect *what, struct list *ios);
/** Hands what was collected to the device. No lock held. */
void wb_run_submit(struct wb_cache *cache, struct list *ios);
/** Waits until every run submitted so far is done. */
void wb_run_wait_locked(struct wb_file *file);

/* range.c */
/** Drops the pages [first, end), dirty ones too, waiting for those in flight or half read. The lock may be given up meanwhile. */
void wb_file_drop_locked(struct wb_file *file, uint64_t first, uint64_t end);
/** Makes the file @size long, which is shorter, as far as its pages are concerned: nothing from there on is resident or in flight. The
 *  tail page keeps its bytes. The lock may be given up meanwhile. */
void wb_file_cut_locked(struct wb_file *file, uint64_t size);
/** Cuts off what a shorter page shows beyond @size. */
void wb_file_zero_tail_locked(struct wb_file *file, uint64_t size);

/* flusher.c */
int wb_flusher_start(struct wb_cache *cache);
void wb_flusher_stop(struct wb_cache *cache);
/** Asks for background work; wakes the thread. */
void wb_flusher_kick(struct wb_cache *cache);
/** A writer asks for it: at most every restart_poll_ms when the last attempt made no progress. */
void wb_flusher_poll(struct wb_cache *cache);

#ifdef CHOKEFS_INVARIANTS
void wb_file_check_locked(struct wb_file *file);
#else
static inline void wb_file_check_locked(struct wb_file *file)
{
	lock_assert_held(&file->lock);
}
#endif

#endif
