/* SPDX-License-Identifier: MIT */
/* chokefs trial: trials/ has a command line of its own. */
#include "cli/private.h"

#include "trials/trials.h"

const struct cli_command cli_trial = {
	.name = "trial",
	.synopsis =
		"trial list\n"
		"trial show NAME\n"
		"trial run NAME|FILE [--set KEY=VALUE]... [--out DIR] [--over local|nfs] [--json]",
	.summary = "runs a workload under variants of a mount and judges it",
	.details = "",
	.run = trials_main,
};
