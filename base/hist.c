/* SPDX-License-Identifier: MIT */
/* Bucket arithmetic of the duration histogram; base/hist.h says what it promises. */
#include "base/hist.h"

#include <string.h>

static unsigned hist_bucket(uint64_t value)
{
	if (value < 16)
		return (unsigned)value;
	unsigned exponent = 63 - (unsigned)__builtin_clzll(value);
	unsigned mantissa = (unsigned)(value >> (exponent - 4)) & 15;
	return (exponent - 3) * 16 + mantissa;
}

static uint64_t hist_bucket_end(unsigned bucket)
{
	if (bucket < 16)
		return bucket;
	unsigned exponent = bucket / 16 + 3;
	uint64_t step = 1ull << (exponent - 4);
	return (16 + bucket % 16) * step + (step - 1);
}

void hist_reset(struct hist *hist)
{
	atomic_store_explicit(&hist->count, 0, memory_order_relaxed);
	atomic_store_explicit(&hist->sum, 0, memory_order_relaxed);
	atomic_store_explicit(&hist->max, 0, memory_order_relaxed);
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		atomic_store_explicit(&hist->bucket[i], 0, memory_order_relaxed);
}

void hist_add(struct hist *hist, uint64_t value)
{
	atomic_fetch_add_explicit(&hist->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&hist->sum, value, memory_order_relaxed);
	atomic_fetch_add_explicit(&hist->bucket[hist_bucket(value)], 1, memory_order_relaxed);
	uint64_t max = atomic_load_explicit(&hist->max, memory_order_relaxed);
	while (value > max && !atomic_compare_exchange_weak_explicit(&hist->max, &max, value,
								     memory_order_relaxed,
								     memory_order_relaxed))
		;
}

uint64_t hist_quantile(const struct hist *hist, unsigned permille)
{
	uint64_t total = 0;
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		total += atomic_load_explicit(&hist->bucket[i], memory_order_relaxed);
	if (total == 0)
		return 0;
	uint64_t rank = (total * permille + 999) / 1000;
	uint64_t max = atomic_load_explicit(&hist->max, memory_order_relaxed);
	uint64_t seen = 0;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += atomic_load_explicit(&hist->bucket[i], memory_order_relaxed);
		if (seen >= rank && seen > 0) {
			uint64_t end = hist_bucket_end(i);
			return end < max ? end : max;
		}
	}
	return max;
}
