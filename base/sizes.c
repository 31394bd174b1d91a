/* SPDX-License-Identifier: MIT */
/* Parsers and printers of sizes and durations; base/sizes.h says what they accept. */
#include "base/sizes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

/* Reads digits at *@text and moves it behind them. */
static int parse_digits(const char **text, uint64_t *ret_value)
{
	const char *p = *text;
	uint64_t value = 0;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	*text = p;
	*ret_value = value;
	return 0;
}

int parse_u64(const char *text, uint64_t *ret_value)
{
	uint64_t value;
	int r = parse_digits(&text, &value);
	if (r < 0)
		return r;
	if (*text)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int parse_s64(const char *text, int64_t *ret_value)
{
	bool negative = *text == '-';
	uint64_t value;

	if (*text == '-' || *text == '+')
		text++;
	int r = parse_u64(text, &value);
	if (r < 0)
		return r;
	if (value > (uint64_t)INT64_MAX)
		return -ERANGE;
	*ret_value = negative ? -(int64_t)value : (int64_t)value;
	return 0;
}

int parse_size(const char *text, uint64_t unit, uint64_t *ret_bytes)
{
	static const char suffixes[] = "KMGT";
	uint64_t value;

	int r = parse_digits(&text, &value);
	if (r < 0)
		return r;
	if (*text) {
		const char *suffix = strchr(suffixes, toupper((unsigned char)*text));
		if (!suffix || text[1])
			return -EINVAL;
		unit = 1ull << (10 * (suffix - suffixes + 1));
	}
	if (__builtin_mul_overflow(value, unit, &value))
		return -ERANGE;
	*ret_bytes = value;
	return 0;
}

int parse_duration(const char *text, uint64_t unit_ns, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ms", NSEC_PER_MSEC },	 { "s", NSEC_PER_SEC },
		{ "sec", NSEC_PER_SEC },	 { "second", NSEC_PER_SEC },
		{ "seconds", NSEC_PER_SEC },	 { "m", 60 * NSEC_PER_SEC },
		{ "min", 60 * NSEC_PER_SEC },	 { "minute", 60 * NSEC_PER_SEC },
		{ "minutes", 60 * NSEC_PER_SEC }, { "h", 3600 * NSEC_PER_SEC },
		{ "hour", 3600 * NSEC_PER_SEC }, { "hours", 3600 * NSEC_PER_SEC },
		{ "d", 86400 * NSEC_PER_SEC },	 { "day", 86400 * NSEC_PER_SEC },
		{ "days", 86400 * NSEC_PER_SEC },
	};
	uint64_t value;

	int r = parse_digits(&text, &value);
	if (r < 0)
		return r;
	if (*text) {
		size_t i = 0;
		while (i < sizeof(units) / sizeof(units[0]) && strcasecmp(units[i].name, text) != 0)
			i++;
		if (i == sizeof(units) / sizeof(units[0]))
			return -EINVAL;
		unit_ns = units[i].ns;
	}
	if (__builtin_mul_overflow(value, unit_ns, &value))
		return -ERANGE;
	*ret_ns = value;
	return 0;
}

int parse_bool(const char *text, bool *ret_value)
{
	static const char *const yes[] = { "on", "yes", "true", "1" };
	static const char *const no[] = { "off", "no", "false", "0" };

	for (size_t i = 0; i < 4; i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*ret_value = strcmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return -EINVAL;
}

const char *format_size(uint64_t bytes, char *buf, size_t len)
{
	static const char suffixes[] = "TGMK";

	for (int i = 0; i < 4; i++) {
		uint64_t unit = 1ull << (10 * (4 - i));
		if (bytes >= unit && bytes % unit == 0) {
			snprintf(buf, len, "%llu%c", (unsigned long long)(bytes / unit), suffixes[i]);
			return buf;
		}
	}
	snprintf(buf, len, "%llu", (unsigned long long)bytes);
	return buf;
}

const char *format_size_human(uint64_t bytes, char *buf, size_t len)
{
	static const char *const suffixes[] = { "", "K", "M", "G", "T", "P", "E" };
	double value = (double)bytes;
	int i = 0;

	for (; value >= 1000 && i < 6; i++)
		value /= 1024;
	snprintf(buf, len, value < 10 && i > 0 ? "%.1f%s" : "%.0f%s", value, suffixes[i]);
	return buf;
}
