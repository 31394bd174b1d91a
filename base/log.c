/* SPDX-License-Identifier: MIT */
/* Where messages go; base/log.h says what they look like. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>

/* The one piece of process-wide state: stderr and syslog are process-wide too. */
static atomic_bool log_syslog_on;

void log_to_syslog(void)
{
	openlog("chokefs", LOG_PID, LOG_DAEMON);
	atomic_store(&log_syslog_on, true);
}

void log_line(enum log_level level, const char *format, ...)
{
	static const int priority[] = { LOG_ERR, LOG_WARNING, LOG_INFO };
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "chokefs: %s\n", text);
	if (atomic_load(&log_syslog_on))
		syslog(priority[level], "%s", text);
}
