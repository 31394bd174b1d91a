/* SPDX-License-Identifier: MIT */
/* chokefs quota: usage and limits of one user or group, in the columns of quota(1). */
#include "cli/private.h"

#include <getopt.h>

struct args {
	enum cli_kind kind;
	uint32_t id;
};

static int parse_args(int argc, char **argv, struct args *args)
{
	static const struct option longs[] = {
		{ "user", required_argument, NULL, 'u' },
		{ "group", required_argument, NULL, 'g' },
		{ 0 },
	};
	bool given = false;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":u:g:", longs, NULL)) != -1) {
		if (c != 'u' && c != 'g')
			return cli_bad_option(c, argv);
		if (given)
			return cli_wrong("quota: %s: one user or group at a time", optarg);
		given = true;
		args->kind = c == 'u' ? CLI_USER : CLI_GROUP;
		int code = cli_parse_id(args->kind, optarg, &args->id);
		if (code != 0)
			return code;
	}
	return cli_expect_args(argc, argv, optind, 1, "[-u USER | -g GROUP] MOUNTPOINT");
}

/* One half of the line; @over puts the star behind what is used. */
static void print_half(const char *used, bool over, const char *soft, const char *hard,
		       const char *grace)
{
	printf(" %7s%c %7s %7s %7s", used, over ? '*' : ' ', soft, hard, grace);
}

static void print_entry(const char *filesystem, const struct cli_entry *entry, int64_t now)
{
	char used[32], soft[32], hard[32], grace[32];

	printf("%15s", filesystem);
	print_half(cli_format_blocks(entry->bytes, false, used, sizeof(used)),
		   cli_over_bytes(entry),
		   cli_format_blocks(entry->bytes_soft, false, soft, sizeof(soft)),
		   cli_format_blocks(entry->bytes_hard, false, hard, sizeof(hard)),
		   cli_format_grace(entry->bytes_expire, now, grace, sizeof(grace)));
	print_half(cli_format_inodes(entry->inodes, false, used, sizeof(used)),
		   cli_over_inodes(entry),
		   cli_format_inodes(entry->inodes_soft, false, soft, sizeof(soft)),
		   cli_format_inodes(entry->inodes_hard, false, hard, sizeof(hard)),
		   cli_format_grace(entry->inodes_expire, now, grace, sizeof(grace)));
	putchar('\n');
}

static int run(int argc, char **argv)
{
	struct args args = { .kind = CLI_USER, .id = getuid() };
	char name[64];

	int code = parse_args(argc, argv, &args);
	if (code != 0)
		return code;
	json_object *request = cli_request("quota");
	json_object_object_add(request, "kind", json_object_new_string(cli_kind_name(args.kind)));
	json_object_object_add(request, "id", json_object_new_int64(args.id));
	_cleanup_json_ json_object *answer = control_ask(argv[optind], request, &code);
	if (!answer)
		return code;

	struct cli_entry entry = cli_entry_of(cli_get(answer, "entry"));
	bool limited =
		entry.bytes_soft || entry.bytes_hard || entry.inodes_soft || entry.inodes_hard;
	printf("Disk quotas for %s %s (%s %u): %s\n", cli_kind_name(args.kind),
	       cli_format_id(args.kind, args.id, false, name, sizeof(name)),
	       args.kind == CLI_USER ? "uid" : "gid", args.id, limited ? "" : "none");
	printf("     Filesystem  blocks    quota   limit   grace   files    quota   limit   "
	       "grace\n");
	print_entry(cli_string(answer, "backing"), &entry, cli_int(answer, "now"));
	return cli_over_bytes(&entry) || cli_over_inodes(&entry) ? 1 : 0;
}

const struct cli_command cli_quota = {
	.name = "quota",
	.synopsis = "quota [-u USER | -g GROUP] MOUNTPOINT",
	.summary = "shows usage and limits of a user (yourself) or a group",
	.details = "Blocks are KiB. A star marks what is over its limit, and the exit code is then "
		   "1. The column \"grace\" says\n"
		   "how long a soft limit may still be exceeded; \"none\": no longer.\n",
	.run = run,
};
