/* SPDX-License-Identifier: MIT */
/*
 * Sizes and durations as people write them, with every digit checked.
 *
 * A quota tool that reads "12Q" as 12 has lied to somebody. All parsers take the whole string or
 * refuse it, and never wrap.
 */
#ifndef BASE_SIZES_H
#define BASE_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Decimal digits only. 0, -EINVAL, -ERANGE. */
int parse_u64(const char *text, uint64_t *ret_value);

/** Decimal digits with an optional sign. 0, -EINVAL, -ERANGE. */
int parse_s64(const char *text, int64_t *ret_value);

/** Digits and an optional K M G T (powers of 1024, either case); a bare number counts @unit bytes.
 *  0, -EINVAL, -ERANGE. */
int parse_size(const char *text, uint64_t unit, uint64_t *ret_bytes);

/** Digits and an optional ms s m h d, or quota-tools' "7days" "12hours" "30minutes" "45seconds"
 *  (singular and "min", "sec" too); a bare number counts @unit_ns. 0, -EINVAL, -ERANGE. */
int parse_duration(const char *text, uint64_t unit_ns, uint64_t *ret_ns);

/** "on"/"off", "yes"/"no", "true"/"false", "1"/"0". 0 or -EINVAL. */
int parse_bool(const char *text, bool *ret_value);

/** Bytes as "64M" where that is exact, else as plain digits. @len: at least 24. */
const char *format_size(uint64_t bytes, char *buf, size_t len);

/** Rounded to three digits for people, "1.4G", "812K". @len: at least 24. */
const char *format_size_human(uint64_t bytes, char *buf, size_t len);

/** Division that rounds up; @by > 0. */
static inline uint64_t div_round_up(uint64_t value, uint64_t by)
{
	return value / by + (value % by != 0);
}

/** The multiple of @unit (a power of two) at or below @value. */
static inline uint64_t round_down_pow2(uint64_t value, uint64_t unit)
{
	return value & ~(unit - 1);
}

/** The multiple of @unit (a power of two) at or above @value; @value + @unit must not wrap. */
static inline uint64_t round_up_pow2(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
