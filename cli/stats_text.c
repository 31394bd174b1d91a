/* SPDX-License-Identifier: MIT */
/*
 * The counters as text. Both forms walk whatever sections the daemon sends, so that a counter added
 * there needs nothing here; only gauges are named, since a scraper must not take a gauge for a
 * counter.
 */
#include "cli/private.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/sizes.h"

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);
	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

const char *cli_format_ns(int64_t ns, char *buf, size_t len)
{
	double value = (double)ns;
	if (ns < 1000)
		snprintf(buf, len, "%" PRId64 "ns", ns);
	else if (ns < 1000000)
		snprintf(buf, len, "%.*fus", value < 1e4 ? 1 : 0, value / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, len, "%.*fms", value < 1e7 ? 1 : 0, value / 1e6);
	else
		snprintf(buf, len, "%.1fs", value / 1e9);
	return buf;
}

/* ---- for people ---- */

static void print_ops(json_object *ops, FILE *out)
{
	char bytes[32], p50[32], p99[32], max[32];

	fprintf(out, "%-16s %10s %8s %8s %8s %8s %8s\n", "operation", "count", "bytes", "errors",
		"p50", "p99", "max");
	json_object_object_foreach(ops, name, op)
	{
		if (cli_int(op, "count") == 0)
			continue;
		fprintf(out, "%-16s %10" PRId64 " %8s %8" PRId64 " %8s %8s %8s\n", name,
			cli_int(op, "count"),
			format_size_human((uint64_t)cli_int(op, "bytes"), bytes, sizeof(bytes)),
			cli_int(op, "errors"),
			cli_format_ns(cli_int(op, "p50_ns"), p50, sizeof(p50)),
			cli_format_ns(cli_int(op, "p99_ns"), p99, sizeof(p99)),
			cli_format_ns(cli_int(op, "max_ns"), max, sizeof(max)));
	}
}

/* A key without its unit, and its value with one. */
static void print_value(const char *key, json_object *value, FILE *out)
{
	char text[32];
	size_t len = strlen(key);

	if (ends_with(key, "_ns"))
		fprintf(out, "  %.*s %s", (int)len - 3, key,
			cli_format_ns(json_object_get_int64(value), text, sizeof(text)));
	else if (ends_with(key, "bytes"))
		fprintf(out, "  %s %s", key,
			format_size_human(json_object_get_uint64(value), text, sizeof(text)));
	else if (json_object_is_type(value, json_type_double))
		fprintf(out, "  %s %.1f", key, json_object_get_double(value));
	else
		fprintf(out, "  %s %s", key, json_object_get_string(value));
}

static void print_section(const char *name, json_object *section, FILE *out)
{
	fprintf(out, "%-9s", name);
	json_object_object_foreach(section, key, value) print_value(key, value, out);
	fputc('\n', out);
}

void cli_stats_print(json_object *stats, FILE *out)
{
	char uptime[32];

	fprintf(out, "%s: chokefs over %s, up %s\n", cli_string(stats, "mountpoint"),
		cli_string(stats, "backing"),
		cli_format_ns(cli_int(stats, "uptime_ns"), uptime, sizeof(uptime)));
	print_ops(cli_get(stats, "ops"), out);
	json_object_object_foreach(stats, name, section)
	{
		if (json_object_is_type(section, json_type_object) && strcmp(name, "ops") != 0 &&
		    strcmp(name, "settings") != 0)
			print_section(name, section, out);
	}
}

/* ---- for Prometheus (text exposition format) ---- */

static bool is_gauge(const char *section, const char *key)
{
	static const char *const gauges[] = {
		"quota.ids",         "cache.pages",    "cache.dirty",
		"cache.writeback",   "cache.files",    "cache.oldest_dirty_ns",
		"cache.limit_pages", "gate.congested", "gate.outstanding",
		"gate.on",           "gate.off",       "device.inflight",
	};
	char name[128];

	if (strcmp(section, "memory") == 0)
		return true;
	snprintf(name, sizeof(name), "%s.%s", section, key);
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
		if (strcmp(gauges[i], name) == 0)
			return true;
	}
	return false;
}

/* A label's value: backslash, quote and newline are escaped. */
static void put_label(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void put_number(FILE *out, json_object *value)
{
	if (json_object_is_type(value, json_type_boolean))
		fprintf(out, " %d\n", json_object_get_boolean(value));
	else
		fprintf(out, " %s\n", json_object_get_string(value));
}

static bool is_number(json_object *value)
{
	return json_object_is_type(value, json_type_int) ||
	       json_object_is_type(value, json_type_double) ||
	       json_object_is_type(value, json_type_boolean);
}

static void put_section(const char *section, json_object *values, const char *mountpoint, FILE *out)
{
	json_object_object_foreach(values, key, value)
	{
		bool gauge = is_gauge(section, key);
		const char *suffix = gauge ? "" : "_total";
		if (!is_number(value))
			continue;
		fprintf(out, "# TYPE chokefs_%s_%s%s %s\nchokefs_%s_%s%s{mountpoint=\"", section,
			key, suffix, gauge ? "gauge" : "counter", section, key, suffix);
		put_label(out, mountpoint);
		fputs("\"}", out);
		put_number(out, value);
	}
}

/* A family for each figure of an operation, the operation as a label. */
static void put_op_family(const char *key, bool gauge, json_object *ops, const char *mountpoint,
			  FILE *out)
{
	const char *suffix = gauge ? "" : "_total";

	fprintf(out, "# TYPE chokefs_op_%s%s %s\n", key, suffix, gauge ? "gauge" : "counter");
	json_object_object_foreach(ops, name, op)
	{
		fprintf(out, "chokefs_op_%s%s{mountpoint=\"", key, suffix);
		put_label(out, mountpoint);
		fprintf(out, "\",op=\"%s\"}", name);
		put_number(out, cli_get(op, key));
	}
}

void cli_stats_prometheus(json_object *stats, FILE *out)
{
	static const char *const op_keys[] = { "count",  "bytes",  "errors",
					       "p50_ns", "p99_ns", "max_ns" };
	const char *mountpoint = cli_string(stats, "mountpoint");

	for (size_t i = 0; i < 6; i++)
		put_op_family(op_keys[i], i >= 3, cli_get(stats, "ops"), mountpoint, out);
	json_object_object_foreach(stats, name, section)
	{
		if (json_object_is_type(section, json_type_object) && strcmp(name, "ops") != 0 &&
		    strcmp(name, "settings") != 0)
			put_section(name, section, mountpoint, out);
	}
}
