/* SPDX-License-Identifier: MIT */
/*
 * Scope-bound ownership: a variable that gives itself back when it leaves its scope.
 *
 * An error path that must remember what to undo is an error path that will forget. Every owner is
 * declared with _cleanup_() from birth and handed over with take_ptr() or take_fd().
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(func) __attribute__((cleanup(func), unused))

/** Hands over the pointer in @var, which becomes NULL. */
#define take_ptr(var)                                                                              \
	__extension__({                                                                            \
		__typeof__(var) taken_ = (var);                                                    \
		(var) = NULL;                                                                      \
		taken_;                                                                            \
	})

/** Hands over the descriptor in *@fd, which becomes -1. */
static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

static inline void cleanup_free(void *ptr)
{
	free(*(void **)ptr);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)

#endif
