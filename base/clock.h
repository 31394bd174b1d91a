/* SPDX-License-Identifier: MIT */
/* The two clocks: one that never jumps, for durations; one of the calendar, for grace and mtime. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

static inline uint64_t timespec_ns(const struct timespec *ts)
{
	return (uint64_t)ts->tv_sec * NSEC_PER_SEC + (uint64_t)ts->tv_nsec;
}

static inline struct timespec timespec_of_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / NSEC_PER_SEC),
				  .tv_nsec = (long)(ns % NSEC_PER_SEC) };
}

/** Nanoseconds of a clock that never jumps (CLOCK_MONOTONIC). */
static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return timespec_ns(&ts);
}

/** The same, as of the last tick of the kernel: milliseconds old, for next to nothing. */
static inline uint64_t clock_coarse_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return timespec_ns(&ts);
}

/** The calendar's time (CLOCK_REALTIME). */
static inline struct timespec clock_wall(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return ts;
}

/** Processor time used by this process, user and system, in ns. */
static inline uint64_t clock_cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return timespec_ns(&ts);
}

#endif
