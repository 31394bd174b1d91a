/* SPDX-License-Identifier: MIT */
/*
 * The flusher: one thread that carries dirty pages to the device, oldest file first.
 *
 * After Linux' fs/fs-writeback.c. Periodic work runs every dirty_writeback_centisecs and writes what has been dirty for
 * dirty_expire_centisecs. Background work runs while more than the background threshold is dirty. Both go in passes: a pass takes
 * the file at the head of the line, asks the gate, writes at most a pass' length of it and puts what is left at the end of the line.
 *
 * A pass that the gate turned away wrote nothing. When all that is in line wrote nothing there is no
 * progress and the thread goes to sleep, with the congestion's end nobody's concern: in `skip` only a writer's poll or
 * the timer starts it again. That is the pathology of docs/congestion.md, and nothing here may be clever about it.
 */
#include "writeback/private.h"

#include "base/sizes.h"

#define MIN_PASS_BYTES (1u << 20)
#define BANDWIDTH_PERIOD_NS (200 * NSEC_PER_MSEC)
#define BANDWIDTH_START (100u << 20)
#define LANDING_NS (100 * NSEC_PER_MSEC)
#define MAX_AGE_MS (1u << 30) /* twelve days */

/* Half a second of what the device was measured to take; with a gate never more than ON. */
static uint64_t pass_pages(struct wb_cache *cache)
{
	uint64_t bytes = atomic_load(&cache->pass_bytes);

	if (bytes == 0) {
		bytes = max_u64(atomic_load(&cache->flusher.bandwidth) / 2, MIN_PASS_BYTES);
		if (atomic_load(&cache->gate.mode) != WB_CONGESTION_NONE)
			bytes = min_u64(bytes, atomic_load(&cache->gate.on) * WB_PAGE_SIZE);
	}
	return max_u64(bytes / WB_PAGE_SIZE, 1);
}

/* Bytes per second while there was something to do, smoothed over a few periods. */
static void measure_bandwidth(struct wb_cache *cache)
{
	struct wb_flusher *flusher = &cache->flusher;
	uint64_t now_ns = clock_now_ns();
	struct wb_device_stats stats;

	if (now_ns - flusher->bw_time_ns < BANDWIDTH_PERIOD_NS)
		return;
	wb_device_get_stats(cache->device, &stats);
	uint64_t bytes = stats.bytes - flusher->bw_bytes;
	if (stats.bytes >= flusher->bw_bytes && bytes > 0 && stats.inflight > 0) {
		uint64_t now_bw = (uint64_t)((double)bytes * 1e9 / (double)(now_ns - flusher->bw_time_ns));
		uint64_t bw = atomic_load(&flusher->bandwidth);
		atomic_store(&flusher->bandwidth, bw - bw / 4 + now_bw / 4);
	}
	flusher->bw_time_ns = now_ns;
	flusher->bw_bytes = stats.bytes;
}

/* The file at the head of the line, moved to its end; referenced. */
static struct wb_file *next_file(struct wb_cache *cache)
{
	LOCK_SCOPE(&cache->lock);
	if (list_is_empty(&cache->dirty_files))
		return NULL;
	struct wb_file *file = list_first(&cache->dirty_files, struct wb_file, dirty_link);
	list_move_tail(&cache->dirty_files, &file->dirty_link);
	wb_file_ref(file);
	return file;
}

static uint64_t count_dirty_files(struct wb_cache *cache)
{
	uint64_t nr = 0;
	struct wb_file *file;

	LOCK_SCOPE(&cache->lock);
	list_for_each(file, &cache->dirty_files, dirty_link)
		nr++;
	return nr;
}

/* What one trip along the line came to. */
struct round {
	uint64_t pages; /* on their way */
	bool skipped;   /* the gate turned a pass away */
};

static uint64_t collect(struct wb_cache *cache, struct wb_file *file, struct wb_collect what, struct list *ios)
{
	LOCK_SCOPE(&file->lock);
	if (file->err_backoff_ms > 0) {
		if ((int32_t)(wb_cache_time_ms(cache) - file->err_retry_ms) < 0)
			return 0;
		/* A page that failed counts as dirtied when it failed. It has waited long enough. */
		what.by_age = false;
	}
	what.max_pages = pass_pages(cache);
	return file->dead ? 0 : wb_run_collect_locked(file, &what, ios);
}

/* One pass over one file. */
static void pass(struct wb_cache *cache, struct wb_file *file, const struct wb_collect *what, struct round *round)
{
	struct list ios;

	list_init(&ios);
	if (wb_gate_enter(&cache->gate) == WB_GATE_SKIPPED) {
		round->skipped = true;
		return;
	}
	uint64_t pages = collect(cache, file, *what, &ios);
	wb_run_submit(cache, &ios);
	if (pages > 0) {
		atomic_fetch_add(&cache->flusher.passes, 1);
		atomic_fetch_add(&cache->flusher.pages, pages);
		round->pages += pages;
	}
	measure_bandwidth(cache);
}

static bool stopping(struct wb_cache *cache)
{
	LOCK_SCOPE(&cache->lock);
	return cache->stop;
}

/* Once around the line. */
static struct round round_of_passes(struct wb_cache *cache, const struct wb_collect *what, bool background)
{
	struct round round = { 0 };

	for (uint64_t left = count_dirty_files(cache); left > 0 && !stopping(cache); left--) {
		if (background && atomic_load(&cache->nr_dirty) <= atomic_load(&cache->dirty_background))
			break;
		struct wb_file *file = next_file(cache);
		if (!file)
			break;
		pass(cache, file, what, &round);
		wb_file_unref(file);
	}
	return round;
}

/* All that is dirty is in flight and was written to again: waits until something lands, as Linux' flusher does for an inode
 * under write-back. False if nothing is in flight. */
static bool wait_for_landing(struct wb_cache *cache)
{
	LOCK_SCOPE(&cache->lock);
	atomic_fetch_add(&cache->nr_waiting, 1);
	bool flying = atomic_load(&cache->nr_writeback) > 0;
	if (flying)
		cond_wait_until(&cache->throttled, &cache->lock, clock_now_ns() + LANDING_NS);
	atomic_fetch_sub(&cache->nr_waiting, 1);
	return flying;
}

static void work_background(struct wb_cache *cache)
{
	struct wb_collect what = { .end = UINT64_MAX };

	while (!stopping(cache) && atomic_load(&cache->nr_dirty) > atomic_load(&cache->dirty_background)) {
		struct round round = round_of_passes(cache, &what, true);
		if (round.pages == 0 && (round.skipped || !wait_for_landing(cache))) {
			atomic_store(&cache->flusher.stalled, true);
			return;
		}
	}
	atomic_store(&cache->flusher.stalled, false);
}

static void work_periodic(struct wb_cache *cache)
{
	struct wb_collect what = { .end = UINT64_MAX, .by_age = true };
	uint64_t expire_ms = atomic_load(&cache->expire_cs) * 10ull;

	/* The clock of pages wraps: what is older than it can tell apart has no age. */
	what.before_ms = wb_cache_time_ms(cache) - (uint32_t)min_u64(expire_ms, MAX_AGE_MS);
	while (!stopping(cache) && round_of_passes(cache, &what, false).pages > 0)
		;
}

/* ---- the timer ---- */

static void timer_restart(struct wb_cache *cache)
{
	struct wb_flusher *flusher = &cache->flusher;

	flusher->timer_cs = atomic_load(&cache->period_cs);
	/* No period: the timer still ticks, rarely, and does nothing. */
	flusher->timer_ns = clock_now_ns() +
			    (flusher->timer_cs ? flusher->timer_cs * (10 * NSEC_PER_MSEC) : 3600 * NSEC_PER_SEC);
}

/* When it fires; counted anew when the period was changed. */
static uint64_t timer_deadline(struct wb_cache *cache)
{
	if (cache->flusher.timer_cs != atomic_load(&cache->period_cs))
		timer_restart(cache);
	return cache->flusher.timer_ns;
}

/* True once a period, however busy the thread was when it ended. */
static bool timer_fires(struct wb_cache *cache)
{
	if (clock_now_ns() < timer_deadline(cache))
		return false;
	timer_restart(cache);
	if (cache->flusher.timer_cs == 0)
		return false;
	atomic_fetch_add(&cache->flusher.wakeups_timer, 1);
	return true;
}

/* Sleeps until kicked or until the timer fires. */
static void sleep_well(struct wb_cache *cache)
{
	struct wb_flusher *flusher = &cache->flusher;
	bool early = true;

	LOCK_SCOPE(&cache->lock);
	atomic_store(&flusher->sleeping, true);
	/* A writer may have crossed the threshold, and seen us awake, since we last looked. */
	if (!atomic_load(&flusher->stalled) &&
	    atomic_load(&cache->nr_dirty) > atomic_load(&cache->dirty_background))
		flusher->kicked = true;
	while (!flusher->kicked && !cache->stop && early)
		early = cond_wait_until(&flusher->wake, &cache->lock, timer_deadline(cache));
	atomic_store(&flusher->sleeping, false);
	flusher->kicked = false;
}

static void *flusher_main(void *arg)
{
	struct wb_cache *cache = arg;

	pthread_setname_np(pthread_self(), "chokefs-flush");
	timer_restart(cache);
	while (!stopping(cache)) {
		sleep_well(cache);
		if (timer_fires(cache))
			work_periodic(cache);
		work_background(cache);
	}
	return NULL;
}

void wb_flusher_kick(struct wb_cache *cache)
{
	LOCK_SCOPE(&cache->lock);
	if (cache->flusher.kicked || !atomic_load(&cache->flusher.sleeping))
		return;
	cache->flusher.kicked = true;
	atomic_fetch_add(&cache->flusher.wakeups_poll, 1);
	cond_wake_all(&cache->flusher.wake);
}

void wb_flusher_poll(struct wb_cache *cache)
{
	struct wb_flusher *flusher = &cache->flusher;
	uint64_t now_ns = clock_now_ns();
	uint64_t last_ns = atomic_load(&flusher->last_poll_ns);

	if (!atomic_load(&flusher->sleeping))
		return;
	if (atomic_load(&flusher->stalled) &&
	    now_ns - last_ns < atomic_load(&cache->restart_poll_ms) * NSEC_PER_MSEC)
		return;
	if (atomic_compare_exchange_strong(&flusher->last_poll_ns, &last_ns, now_ns))
		wb_flusher_kick(cache);
}

int wb_flusher_start(struct wb_cache *cache)
{
	atomic_store(&cache->flusher.bandwidth, BANDWIDTH_START);
	cache->flusher.bw_time_ns = clock_now_ns();
	atomic_store(&cache->flusher.sleeping, true); /* so that a poll before the thread runs is not lost */
	int r = pthread_create(&cache->flusher.thread, NULL, flusher_main, cache);
	if (r != 0)
		return -r;
	cache->flusher.running = true;
	return 0;
}

void wb_flusher_stop(struct wb_cache *cache)
{
	if (!cache->flusher.running)
		return;
	lock_take(&cache->lock);
	cache->stop = true;
	cond_wake_all(&cache->flusher.wake);
	lock_release(&cache->lock);
	pthread_join(cache->flusher.thread, NULL);
	cache->flusher.running = false;
}
