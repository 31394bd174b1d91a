/* SPDX-License-Identifier: MIT */
/*
 * The congestion gate: how much may be on its way to the device before background write-back is held back.
 *
 * The rule is the Linux NFS client's (fs/nfs/write.c): more than ON pages under write-back is congested, fewer
 * than OFF = ON - ON/4 is not any more. It is looked at only on entry to a pass, so a pass can overshoot by its own
 * length, and never by a pass for data integrity. What a congested pass does is the switch:
 *
 *	none	there is no gate
 *	skip	the pass writes nothing and says so; nobody is woken when it eases (Linux 3.x to 6.10)
 *	block	the pass waits until it eases (2f1f31042ef0, Linux 6.11)
 *
 * A waiter goes on when congestion eases, when the mode is no longer block, and at shutdown.
 * Counting a page until its write (or its batch) is complete is a simplification: the kernel's counter falls at the reply
 * to WRITE, before COMMIT.
 */
#include "writeback/private.h"

#include <unistd.h>

#include "base/sizes.h"

/* Pages; more than any machine has, and their bytes can still be counted. */
#define MAX_ON (1ull << 40)

void wb_gate_init(struct wb_gate *gate)
{
	lock_init(&gate->lock);
	cond_init(&gate->eased);
}

void wb_gate_fini(struct wb_gate *gate)
{
	cond_fini(&gate->eased);
	lock_fini(&gate->lock);
}

static uint64_t isqrt(uint64_t value)
{
	uint64_t root = 0;

	for (uint64_t bit = 1ull << 31; bit; bit >>= 1) {
		uint64_t trial = root | bit;
		if (trial * trial <= value)
			root = trial;
	}
	return root;
}

uint64_t wb_gate_default_kb(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t page_kb = (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
	uint64_t kb = 16 * isqrt(pages) * page_kb;

	return kb < 256 * 1024 ? kb : 256 * 1024;
}

void wb_gate_configure(struct wb_gate *gate, enum wb_congestion mode, uint64_t on_kb)
{
	uint64_t kb = on_kb ? on_kb : wb_gate_default_kb();
	uint64_t on = min_u64(kb / (WB_PAGE_SIZE / 1024), MAX_ON);

	LOCK_SCOPE(&gate->lock);
	if (on == 0)
		on = 1;
	atomic_store(&gate->mode, (int)mode);
	atomic_store(&gate->on, on);
	atomic_store(&gate->off, on - on / 4);
	/* The flag follows thresholds that moved, or a waiter could wait for an easing that has already been. Raised first, looked at
	 * again then: the last completion may come in between, and finds either the flag or, waiting for the lock, our answer. */
	if (mode != WB_CONGESTION_NONE && atomic_load(&gate->outstanding) > on)
		atomic_store(&gate->congested, true);
	uint64_t outstanding = atomic_load(&gate->outstanding);
	if (mode == WB_CONGESTION_NONE || outstanding < on - on / 4 || outstanding == 0)
		atomic_store(&gate->congested, false);
	cond_wake_all(&gate->eased);
}

static bool gate_must_wait_locked(struct wb_gate *gate)
{
	lock_assert_held(&gate->lock);
	return atomic_load(&gate->congested) && atomic_load(&gate->mode) == WB_CONGESTION_BLOCK &&
	       !gate->shutdown;
}

static void gate_wait(struct wb_gate *gate)
{
	LOCK_SCOPE(&gate->lock);
	if (!gate_must_wait_locked(gate))
		return;
	uint64_t start_ns = clock_now_ns();
	atomic_fetch_add(&gate->waits, 1);
	while (gate_must_wait_locked(gate))
		cond_wait(&gate->eased, &gate->lock);
	atomic_fetch_add(&gate->wait_ns, clock_now_ns() - start_ns);
}

enum wb_gate_verdict wb_gate_enter(struct wb_gate *gate)
{
	if (!atomic_load(&gate->congested))
		return WB_GATE_OPEN;
	switch (atomic_load(&gate->mode)) {
	case WB_CONGESTION_SKIP:
		atomic_fetch_add(&gate->passes_skipped, 1);
		return WB_GATE_SKIPPED;
	case WB_CONGESTION_BLOCK:
		gate_wait(gate);
		return WB_GATE_OPEN;
	default:
		return WB_GATE_OPEN;
	}
}

void wb_gate_add(struct wb_gate *gate, uint64_t pages)
{
	uint64_t outstanding = atomic_fetch_add(&gate->outstanding, pages) + pages;

	if (atomic_load(&gate->mode) != WB_CONGESTION_NONE && outstanding > atomic_load(&gate->on) &&
	    !atomic_exchange(&gate->congested, true))
		atomic_fetch_add(&gate->times_congested, 1);
}

bool wb_gate_sub(struct wb_gate *gate, uint64_t pages)
{
	uint64_t outstanding = atomic_fetch_sub(&gate->outstanding, pages) - pages;
	uint64_t off = atomic_load(&gate->off);

	/* With an ON of a page or two OFF can be ON: nothing outstanding has always eased. */
	if ((outstanding >= off && outstanding > 0) || !atomic_load(&gate->congested))
		return false;
	LOCK_SCOPE(&gate->lock);
	if (!atomic_exchange(&gate->congested, false))
		return false;
	cond_wake_all(&gate->eased);
	return true;
}

void wb_gate_shutdown(struct wb_gate *gate)
{
	LOCK_SCOPE(&gate->lock);
	gate->shutdown = true;
	cond_wake_all(&gate->eased);
}
