/* SPDX-License-Identifier: MIT */
/* chokefs setquota: limits of a user or group, and grace periods, durable when it returns. */
#include "cli/private.h"

#include <getopt.h>
#include <string.h>

#include "base/clock.h"
#include "base/sizes.h"

/* Blocks count KiB. */
static int add_blocks(json_object *request, const char *key, const char *text)
{
	uint64_t bytes;
	if (parse_size(text, 1024, &bytes) < 0 || bytes > INT64_MAX)
		return cli_wrong("setquota: %s: not a number of KiB, nor a size with K, M, G or T",
				 text);
	json_object_object_add(request, key, json_object_new_uint64(bytes));
	return 0;
}

/* Files are counted, so their suffixes are thousands, as in setquota(8). */
static int add_inodes(json_object *request, const char *key, const char *text)
{
	static const char suffixes[] = "kmgt";
	_cleanup_free_ char *digits = strdup(text);
	size_t len = strlen(text);
	uint64_t unit = 1, count;

	if (!digits)
		return cli_wrong("setquota: out of memory");
	const char *suffix = len ? strchr(suffixes, text[len - 1] | ' ') : NULL;
	if (suffix && *suffix) {
		digits[len - 1] = '\0';
		for (const char *s = suffixes; s <= suffix; s++)
			unit *= 1000;
	}
	if (parse_u64(digits, &count) < 0 || __builtin_mul_overflow(count, unit, &count) ||
	    count > INT64_MAX)
		return cli_wrong("setquota: %s: not a number of files", text);
	json_object_object_add(request, key, json_object_new_uint64(count));
	return 0;
}

static int add_period(json_object *request, const char *key, const char *text)
{
	uint64_t ns;
	if (parse_duration(text, NSEC_PER_SEC, &ns) < 0)
		return cli_wrong("setquota: %s: not a number of seconds, nor a time as 7days",
				 text);
	json_object_object_add(request, key, json_object_new_uint64(ns / NSEC_PER_SEC));
	return 0;
}

static int fill_limits(json_object *request, enum cli_kind kind, char **argv)
{
	uint32_t id;
	int code = cli_parse_id(kind, argv[0], &id);
	if (code == 0)
		code = add_blocks(request, "bytes_soft", argv[1]);
	if (code == 0)
		code = add_blocks(request, "bytes_hard", argv[2]);
	if (code == 0)
		code = add_inodes(request, "inodes_soft", argv[3]);
	if (code == 0)
		code = add_inodes(request, "inodes_hard", argv[4]);
	if (code == 0)
		json_object_object_add(request, "id", json_object_new_int64(id));
	return code;
}

static int fill_grace(json_object *request, char **argv)
{
	int code = add_period(request, "bytes_seconds", argv[0]);
	return code ? code : add_period(request, "inodes_seconds", argv[1]);
}

struct args {
	bool user, group, grace;
};

static int parse_args(int argc, char **argv, struct args *args)
{
	static const struct option longs[] = {
		{ "user", no_argument, NULL, 'u' },
		{ "group", no_argument, NULL, 'g' },
		{ "edit-period", no_argument, NULL, 't' },
		{ 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":ugt", longs, NULL)) != -1) {
		if (c == 'u')
			args->user = true;
		else if (c == 'g')
			args->group = true;
		else if (c == 't')
			args->grace = true;
		else
			return cli_bad_option(c, argv);
	}
	if (args->user == args->group)
		return cli_wrong("setquota: one of -u and -g must be given");
	if (args->grace)
		return cli_expect_args(argc, argv, optind, 3, "-t BGRACE IGRACE MOUNTPOINT");
	return cli_expect_args(argc, argv, optind, 6,
			       "(-u USER | -g GROUP) BSOFT BHARD ISOFT IHARD MOUNTPOINT");
}

static int run(int argc, char **argv)
{
	struct args args = { 0 };

	int code = parse_args(argc, argv, &args);
	if (code != 0)
		return code;
	enum cli_kind kind = args.group ? CLI_GROUP : CLI_USER;
	_cleanup_json_ json_object *request = cli_request(args.grace ? "setgrace" : "setquota");
	json_object_object_add(request, "kind", json_object_new_string(cli_kind_name(kind)));
	code = args.grace ? fill_grace(request, argv + optind)
			  : fill_limits(request, kind, argv + optind);
	if (code != 0)
		return code;
	_cleanup_json_ json_object *answer = control_ask(argv[argc - 1], take_ptr(request), &code);
	return answer ? 0 : code;
}

const struct cli_command cli_setquota = {
	.name = "setquota",
	.synopsis = "setquota (-u USER | -g GROUP) BSOFT BHARD ISOFT IHARD MOUNTPOINT\n"
		    "setquota (-u | -g) -t BGRACE IGRACE MOUNTPOINT",
	.summary = "sets limits of a user or group, or the grace periods",
	.details = "Blocks are KiB, or a size with K, M, G or T; files a number, or one with k, m, "
		   "g, t (thousands). 0: no\n"
		   "limit. Grace periods are seconds, or as 7days, 12hours. Names may be numbers. "
		   "The limits are durable\n"
		   "when the command returns.\n",
	.run = run,
};
