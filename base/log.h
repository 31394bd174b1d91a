/* SPDX-License-Identifier: MIT */
/*
 * One line on stderr (and in syslog once the daemon has left its terminal): "chokefs: what: why".
 *
 * Messages name the thing and the value at fault. The rate is kept down by the caller with
 * log_once(), per condition, not here per second.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
};

/** Also sends what follows to syslog. */
void log_to_syslog(void);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)

/** True the first time it is asked about @flag, which starts as false and belongs to the condition. */
static inline bool log_once(_Atomic bool *flag)
{
	return !atomic_exchange(flag, true);
}

#endif
