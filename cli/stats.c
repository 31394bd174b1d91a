/* SPDX-License-Identifier: MIT */
/* chokefs stats: the counters of a mount, for people, for programs, for Prometheus. */
#include "cli/private.h"

#include <getopt.h>

struct args {
	bool json, prometheus, reset;
};

static int parse_args(int argc, char **argv, struct args *args)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "prometheus", no_argument, NULL, 'p' },
		{ "reset", no_argument, NULL, 'r' },
		{ 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (c == 'j')
			args->json = true;
		else if (c == 'p')
			args->prometheus = true;
		else if (c == 'r')
			args->reset = true;
		else
			return cli_bad_option(c, argv);
	}
	if (args->json && args->prometheus)
		return cli_wrong("stats: --json and --prometheus: one of them at a time");
	return cli_expect_args(argc, argv, optind, 1,
			       "[--json | --prometheus] [--reset] MOUNTPOINT");
}

static int run(int argc, char **argv)
{
	struct args args = { 0 };

	int code = parse_args(argc, argv, &args);
	if (code != 0)
		return code;
	_cleanup_json_ json_object *answer =
		control_ask(argv[optind], cli_request(args.reset ? "stats_reset" : "stats"), &code);
	if (!answer)
		return code;
	json_object *stats = cli_get(answer, "stats");
	if (args.json)
		cli_print_json(stats);
	else if (args.prometheus)
		cli_stats_prometheus(stats, stdout);
	else
		cli_stats_print(stats, stdout);
	return 0;
}

const struct cli_command cli_stats = {
	.name = "stats",
	.synopsis = "stats MOUNTPOINT [--json | --prometheus] [--reset]",
	.summary = "shows the counters of a mount",
	.details = "Counters count since the mount or the last --reset; gauges are now. --reset "
		   "shows the counters and then sets\n"
		   "them to zero, which is for the user who mounted and for root. It answers while "
		   "every worker is stalled.\n",
	.run = run,
};
