/* SPDX-License-Identifier: MIT */
/* chokefs mount, and the helper that mount(8) calls for fstab. */
#include "cli/private.h"

#include <getopt.h>
#include <string.h>

#include "fusefs/fusefs.h"

/* Several -o are one list. */
static int add_options(char **joined, const char *more)
{
	char *text = NULL;
	if (asprintf(&text, "%s%s%s", *joined ? *joined : "", *joined ? "," : "", more) < 0) {
		log_error("mount: out of memory");
		return 1;
	}
	free(*joined);
	*joined = text;
	return 0;
}

static int check_places(int argc, char **argv, struct fs_mount_args *args)
{
	int count = args->scratch ? 1 : 2;
	int code = cli_expect_args(argc, argv, optind, count,
				   args->scratch ? "MOUNTPOINT" : "BACKING MOUNTPOINT");
	if (code != 0)
		return code;
	if (!args->scratch)
		args->backing = argv[optind];
	args->mountpoint = argv[optind + count - 1];
	for (int i = optind; i < argc; i++) {
		if (!*argv[i])
			return cli_wrong("mount: an empty path");
	}
	return 0;
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "scratch", no_argument, NULL, 's' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "options", required_argument, NULL, 'o' },
		{ 0 },
	};
	struct fs_mount_args args = { 0 };
	_cleanup_free_ char *options = NULL;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":fo:", longs, NULL)) != -1) {
		if (c == 'f')
			args.foreground = true;
		else if (c == 's')
			args.scratch = true;
		else if (c != 'o')
			return cli_bad_option(c, argv);
		else if (add_options(&options, optarg) != 0)
			return 1;
	}
	int code = check_places(argc, argv, &args);
	if (code != 0)
		return code;
	args.options = options;
	return fs_mount_run(&args);
}

int cli_mount_helper(int argc, char **argv)
{
	struct fs_mount_args args = { 0 };
	_cleanup_free_ char *options = NULL;
	char name[] = "mount";
	bool fake = false;
	int c;

	argv[0] = name;
	opterr = 0;
	while ((c = getopt(argc, argv, ":sfnvN:o:t:")) != -1) {
		if (c == '?' || c == ':')
			return cli_bad_option(c, argv);
		if (c == 'f')
			fake = true;
		else if (c == 'o' && add_options(&options, optarg) != 0)
			return 1;
	}
	int code = check_places(argc, argv, &args);
	if (code != 0 || fake)
		return code;
	args.options = options;
	return fs_mount_run(&args);
}

const struct cli_command cli_mount = {
	.name = "mount",
	.synopsis = "mount [-f] [-o OPTION[,OPTION...]] BACKING MOUNTPOINT\n"
		    "mount [-f] [-o OPTION[,OPTION...]] --scratch MOUNTPOINT",
	.summary = "serves a directory at a mount point",
	.details = "Returns when the mount is usable. BACKING is an existing directory of any "
		   "local file system; its quotas\n"
		   "are kept in BACKING/.chokefs, which the mount does not show.\n\n"
		   "  -f, --foreground  stay in the foreground until unmounted; SIGTERM or ^C "
		   "write back and unmount\n"
		   "  -o, --options     the switches below; ro nosuid nodev noexec noatime sync "
		   "and the like; allow_other,\n"
		   "                    allow_root, max_read=, max_write=, auto_unmount; private: "
		   "root's mounts are open to\n"
		   "                    all users (allow_other) without it\n"
		   "  --scratch         the backing is a private directory under $TMPDIR or "
		   "/var/tmp, gone at unmount\n\n"
		   "As a line in fstab:  BACKING MOUNTPOINT fuse.chokefs "
		   "rollback=list,cache_bytes=1G 0 0\n",
	.run = run,
};
