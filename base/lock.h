/* SPDX-License-Identifier: MIT */
/*
 * Locks that know who holds them, guards bound to a scope, and condition variables on the clock
 * that never jumps.
 *
 * The owner is kept so that lock_assert_held() can open every function named _locked: the compiler
 * cannot check lock rules in C, so the machine does it at run time.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct lock {
	pthread_mutex_t mutex;
	_Atomic(uintptr_t) owner; /* pthread_self() of the holder; 0 when free */
};

struct cond {
	pthread_cond_t cond;
};

static inline uintptr_t lock_self(void)
{
	return (uintptr_t)pthread_self();
}

static inline void lock_init(struct lock *lock)
{
	pthread_mutex_init(&lock->mutex, NULL);
	atomic_init(&lock->owner, 0);
}

static inline void lock_fini(struct lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline bool lock_is_held(struct lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == lock_self();
}

#define lock_assert_held(which) assert(lock_is_held(which))

static inline void lock_take(struct lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
	atomic_store_explicit(&lock->owner, lock_self(), memory_order_relaxed);
}

/** True if the lock was free and is now ours. */
static inline bool lock_try(struct lock *lock)
{
	if (pthread_mutex_trylock(&lock->mutex) != 0)
		return false;
	atomic_store_explicit(&lock->owner, lock_self(), memory_order_relaxed);
	return true;
}

static inline void lock_release(struct lock *lock)
{
	lock_assert_held(lock);
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	pthread_mutex_unlock(&lock->mutex);
}

static inline void lock_guard_release(struct lock **lock)
{
	if (*lock)
		lock_release(*lock);
}

static inline struct lock *lock_guard_take(struct lock *lock)
{
	lock_take(lock);
	return lock;
}

#define LOCK_CONCAT_(a, b) a##b
#define LOCK_CONCAT(a, b) LOCK_CONCAT_(a, b)

/** Takes the lock at @which until the end of the scope. */
#define LOCK_SCOPE(which)                                                                          \
	__attribute__((cleanup(lock_guard_release), unused)) struct lock *LOCK_CONCAT(             \
		lock_guard_, __LINE__) = lock_guard_take(which)

static inline void cond_init(struct cond *cond)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cond->cond, &attr);
	pthread_condattr_destroy(&attr);
}

static inline void cond_fini(struct cond *cond)
{
	pthread_cond_destroy(&cond->cond);
}

static inline void cond_wake_all(struct cond *cond)
{
	pthread_cond_broadcast(&cond->cond);
}

/** Waits with @lock given up meanwhile. May wake for no reason: re-check the condition. */
static inline void cond_wait(struct cond *cond, struct lock *lock)
{
	lock_assert_held(lock);
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	pthread_cond_wait(&cond->cond, &lock->mutex);
	atomic_store_explicit(&lock->owner, lock_self(), memory_order_relaxed);
}

/** As cond_wait, until @deadline_ns of clock_now_ns(). False once the deadline has passed. */
static inline bool cond_wait_until(struct cond *cond, struct lock *lock, uint64_t deadline_ns)
{
	struct timespec ts = timespec_of_ns(deadline_ns);
	lock_assert_held(lock);
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	int r = pthread_cond_timedwait(&cond->cond, &lock->mutex, &ts);
	atomic_store_explicit(&lock->owner, lock_self(), memory_order_relaxed);
	return r != ETIMEDOUT;
}

#endif
