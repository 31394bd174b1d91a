/* SPDX-License-Identifier: MIT */
/* Numbers as people read them in a table: three digits that matter, and the unit beside them. */
#include "trials/private.h"

#include <math.h>

#include "base/sizes.h"

/* Three digits, without an exponent. */
static const char *three_digits(double value, const char *unit, char *buf, size_t len)
{
	double size = fabs(value);
	int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
	if (size != 0 && size < 0.0005)
		snprintf(buf, len, "%.1e%s", value, unit);
	else
		snprintf(buf, len, "%.*f%s", decimals, value, unit);
	return buf;
}

static const char *format_time(double ns, char *buf, size_t len)
{
	double size = fabs(ns);
	if (size >= 1e9)
		return three_digits(ns / 1e9, " s", buf, len);
	if (size >= 1e6)
		return three_digits(ns / 1e6, " ms", buf, len);
	if (size >= 1e3)
		return three_digits(ns / 1e3, " us", buf, len);
	return three_digits(ns, " ns", buf, len);
}

const char *trial_format_value(enum trial_format format, double value, char *buf, size_t len)
{
	if (!isfinite(value)) {
		snprintf(buf, len, "-");
		return buf;
	}
	switch (format) {
	case TRIAL_FORMAT_COUNT:
		snprintf(buf, len, "%.0f", value);
		return buf;
	case TRIAL_FORMAT_TIME:
		return format_time(value, buf, len);
	case TRIAL_FORMAT_BYTES:
		if (value < 0 || value >= 0x1p63)
			return three_digits(value, "", buf, len);
		return format_size_human((uint64_t)value, buf, len);
	case TRIAL_FORMAT_PERCENT:
		snprintf(buf, len, "%.1f %%", value * 100);
		return buf;
	case TRIAL_FORMAT_MBYTES:
		return three_digits(value / 1e6, "", buf, len);
	default:
		return three_digits(value, "", buf, len);
	}
}
