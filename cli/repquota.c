/* SPDX-License-Identifier: MIT */
/* chokefs repquota: everybody's usage and limits, in the form of repquota(8). */
#include "cli/private.h"

#include <getopt.h>

struct args {
	enum cli_kind kind;
	bool numeric, human, json;
};

static int parse_args(int argc, char **argv, struct args *args)
{
	static const struct option longs[] = {
		{ "user", no_argument, NULL, 'u' },
		{ "group", no_argument, NULL, 'g' },
		{ "no-names", no_argument, NULL, 'n' },
		{ "human-readable", no_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	bool user = false, group = false;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":ugns", longs, NULL)) != -1) {
		if (c == 'u')
			user = true;
		else if (c == 'g')
			group = true;
		else if (c == 'n')
			args->numeric = true;
		else if (c == 's')
			args->human = true;
		else if (c == 'j')
			args->json = true;
		else
			return cli_bad_option(c, argv);
	}
	if (user && group)
		return cli_wrong("repquota: -u and -g: one of them at a time");
	args->kind = group ? CLI_GROUP : CLI_USER;
	return cli_expect_args(argc, argv, optind, 1, "[-u | -g] [-n] [-s] [--json] MOUNTPOINT");
}

static void print_head(const struct args *args, json_object *answer)
{
	json_object *grace = cli_get(answer, "grace");
	char blocks[32], inodes[32];

	printf("*** Report for %s quotas on device %s\n", cli_kind_name(args->kind),
	       cli_string(answer, "backing"));
	printf("Block grace time: %s; Inode grace time: %s\n",
	       cli_format_period(cli_int(grace, "bytes_seconds"), blocks, sizeof(blocks)),
	       cli_format_period(cli_int(grace, "inodes_seconds"), inodes, sizeof(inodes)));
	printf("                        Block limits                File limits\n"
	       "%-15s used    soft    hard  grace    used  soft  hard  grace\n"
	       "----------------------------------------------------------------------\n",
	       args->kind == CLI_USER ? "User" : "Group");
}

static void print_entry(const struct args *args, const struct cli_entry *entry, int64_t now)
{
	char name[64], used[32], soft[32], hard[32], grace[32];

	printf("%-9s %c%c %7s %7s %7s %6s",
	       cli_format_id(args->kind, entry->id, args->numeric, name, sizeof(name)),
	       cli_over_bytes(entry) ? '+' : '-', cli_over_inodes(entry) ? '+' : '-',
	       cli_format_blocks(entry->bytes, args->human, used, sizeof(used)),
	       cli_format_blocks(entry->bytes_soft, args->human, soft, sizeof(soft)),
	       cli_format_blocks(entry->bytes_hard, args->human, hard, sizeof(hard)),
	       cli_format_grace(entry->bytes_expire, now, grace, sizeof(grace)));
	printf(" %7s %5s %5s %6s\n",
	       cli_format_inodes(entry->inodes, args->human, used, sizeof(used)),
	       cli_format_inodes(entry->inodes_soft, args->human, soft, sizeof(soft)),
	       cli_format_inodes(entry->inodes_hard, args->human, hard, sizeof(hard)),
	       cli_format_grace(entry->inodes_expire, now, grace, sizeof(grace)));
}

static int run(int argc, char **argv)
{
	struct args args = { 0 };

	int code = parse_args(argc, argv, &args);
	if (code != 0)
		return code;
	json_object *request = cli_request("repquota");
	json_object_object_add(request, "kind", json_object_new_string(cli_kind_name(args.kind)));
	_cleanup_json_ json_object *answer = control_ask(argv[optind], request, &code);
	if (!answer)
		return code;
	if (args.json) {
		json_object_object_del(answer, "ok");
		cli_print_json(answer);
		return 0;
	}
	print_head(&args, answer);
	json_object *entries = cli_get(answer, "entries");
	size_t count = json_object_array_length(entries);
	for (size_t i = 0; i < count; i++) {
		struct cli_entry entry = cli_entry_of(json_object_array_get_idx(entries, i));
		print_entry(&args, &entry, cli_int(answer, "now"));
	}
	return 0;
}

const struct cli_command cli_repquota = {
	.name = "repquota",
	.synopsis = "repquota [-u | -g] [-n] [-s] [--json] MOUNTPOINT",
	.summary = "lists usage and limits of all users or groups",
	.details = "  -u, --user           users (the default)\n"
		   "  -g, --group          groups\n"
		   "  -n, --no-names       numbers instead of names\n"
		   "  -s, --human-readable sizes with units instead of KiB\n"
		   "      --json           the same in bytes, for programs\n\n"
		   "+- behind a name: over a limit of blocks; -+: of files.\n",
	.run = run,
};
