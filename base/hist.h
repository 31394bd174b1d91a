/* SPDX-License-Identifier: MIT */
/*
 * A histogram of durations: lock-free to add to, within 1/16 of the truth to read.
 *
 * Buckets are log-linear, 16 to every power of two, so that a p99 of 3 us and one of 3 s are equally
 * sharp and adding costs two atomic increments.
 */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define HIST_BUCKETS (61 * 16)

struct hist {
	_Atomic uint64_t count;
	_Atomic uint64_t sum;
	_Atomic uint64_t max;
	_Atomic uint64_t bucket[HIST_BUCKETS];
};

void hist_reset(struct hist *hist);
void hist_add(struct hist *hist, uint64_t value);

/** The upper edge of the bucket (never above the maximum seen) that @permille of the values do not
 *  exceed; 0 when empty. 500 = median, 990 = p99. */
uint64_t hist_quantile(const struct hist *hist, unsigned permille);

#endif
