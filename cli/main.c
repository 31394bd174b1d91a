/* SPDX-License-Identifier: MIT */
/*
 * chokefs: a file system that chokes on purpose. The program's only executable.
 *
 * A map of the sources, in the order in which one gets to know them:
 *
 *	cli/        a file for each subcommand; this one chooses
 *	control/    how subcommands talk to the daemon of a mount
 *	fusefs/     the daemon; mount.c is a mount from its options to its last page
 *	quota/      who may store how much
 *	writeback/  the page cache and its way to the backing
 *	trials/     workloads under variants of a mount, measured and judged
 *
 * It is also a mount helper: under the name mount.fuse.chokefs, and when its first argument is a
 * path, which is how mount.fuse3 calls the program of a type.
 */
#include "cli/private.h"

#include <stdarg.h>
#include <string.h>

static const struct cli_command *const commands[] = {
	&cli_mount, &cli_umount,   &cli_tune,     &cli_stats,      &cli_top,
	&cli_quota, &cli_repquota, &cli_setquota, &cli_quotacheck, &cli_trial,
};
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static int print_help(void)
{
	printf("usage: chokefs COMMAND [ARGUMENT...]\n\n"
	       "A file system that chokes as told, and recovers as told.\n\n");
	for (size_t i = 0; i < NR_COMMANDS; i++)
		printf("  %-11s %s\n", commands[i]->name, commands[i]->summary);
	printf("  %-11s %s\n", "help", "explains a command");
	printf("\nExit codes: 0 done; 1 the answer is no, or the work failed; 2 the command line "
	       "is wrong.\n"
	       "Sizes take K M G T (powers of 1024); durations take ms s m h d.\n");
	return 0;
}

static int print_command_help(const struct cli_command *command)
{
	const char *line = command->synopsis;
	const char *lead = "usage:";

	while (*line) {
		int len = (int)strcspn(line, "\n");
		printf("%-6s chokefs %.*s\n", lead, len, line);
		line += len + (line[len] == '\n');
		lead = "";
	}
	printf("\n%s.\n%s%s", command->summary, *command->details ? "\n" : "", command->details);
	if (command == &cli_mount || command == &cli_tune)
		cli_print_switches();
	return 0;
}

static int run_help(int argc, char **argv)
{
	if (argc < 2)
		return print_help();
	if (argc > 2)
		return cli_wrong("help: %s: one command at a time", argv[2]);
	const struct cli_command *command = find_command(argv[1]);
	return command ? print_command_help(command)
		       : cli_wrong("help: %s: no such command", argv[1]);
}

static bool is_helper(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *name = slash ? slash + 1 : argv[0];
	return strcmp(name, "mount.fuse.chokefs") == 0 || strcmp(name, "mount.chokefs") == 0 ||
	       (argc > 2 && strchr(argv[1], '/'));
}

/* --help among the arguments of a command explains the command; after "--" it is an argument. */
static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return true;
	}
	return false;
}

static int run_program(int argc, char **argv)
{
	if (is_helper(argc, argv))
		return cli_mount_helper(argc, argv);
	if (argc < 2)
		return cli_wrong("no command: see chokefs --help");
	if (strcmp(argv[1], "--version") == 0) {
		puts("chokefs " CHOKEFS_VERSION);
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	if (strcmp(argv[1], "help") == 0)
		return run_help(argc - 1, argv + 1);
	const struct cli_command *command = find_command(argv[1]);
	if (!command)
		return cli_wrong("%s: no such command: see chokefs --help", argv[1]);
	if (command != &cli_trial && asks_for_help(argc - 1, argv + 1))
		return print_command_help(command);
	return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	if (argc < 1)
		return 2;
	int code = run_program(argc, argv);
	/* An answer that did not get out is none. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) {
		log_error("stdout: %m");
		return 1;
	}
	return code;
}
