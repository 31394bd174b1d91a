/* SPDX-License-Identifier: MIT */
/*
 * chokefs umount: writes everything back, unmounts, and waits until the daemon is gone.
 *
 * The daemon unmounts itself, because only it knows afterwards what it could not write. A daemon
 * that has died leaves a mount that answers nothing; that is taken away from here.
 */
#include "cli/private.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GONE_TIMEOUT_MS 60000

static int unmount_here(const char *mountpoint)
{
	char *argv[] = { "fusermount3", "-u", "-q", "--", (char *)mountpoint, NULL };
	pid_t pid;
	int status;

	if (geteuid() == 0)
		return umount2(mountpoint, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
	int err = posix_spawnp(&pid, "fusermount3", NULL, NULL, argv, environ);
	if (err)
		return -err;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static int unmount_dead(const struct control_mount *mount, int error)
{
	int r = unmount_here(mount->mountpoint);
	if (r < 0) {
		log_error("%s: its daemon does not answer (%s), and it cannot be unmounted: %s",
			  mount->mountpoint, strerror(-error), strerror(-r));
		return 1;
	}
	log_error("%s: unmounted, but its daemon did not answer: what was not fsynced may be lost",
		  mount->mountpoint);
	return 1;
}

/* A descriptor that becomes readable when the daemon ends; -1 where it cannot be watched. */
static int watch_daemon(json_object *ping)
{
	return (int)syscall(SYS_pidfd_open, (pid_t)cli_int(ping, "pid"), 0);
}

static void wait_gone(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	if (fd >= 0)
		poll(&poll_fd, 1, GONE_TIMEOUT_MS);
}

/* Unmounts over the control channel. The exit code. */
static int unmount_live(const char *path, int daemon_fd)
{
	int code;
	_cleanup_json_ json_object *answer = control_ask(path, cli_request("umount"), &code);
	if (!answer)
		return code;
	json_object *unwritten = cli_get(answer, "unwritten");
	bool failed = json_object_object_get_ex(answer, "reason", NULL);
	size_t count = json_object_array_length(unwritten);
	for (size_t i = 0; i < count; i++)
		log_error("%s: not written back: %s",
			  json_object_get_string(json_object_array_get_idx(unwritten, i)),
			  cli_string(answer, "reason"));
	if (failed && count == 0)
		log_error("%s: writing back failed: %s", path, cli_string(answer, "reason"));
	wait_gone(daemon_fd);
	return failed ? 1 : 0;
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	_cleanup_json_ json_object *ping = NULL;
	_cleanup_json_ json_object *request = cli_request("ping");
	_cleanup_close_ int daemon_fd = -1;

	opterr = 0;
	int c = getopt_long(argc, argv, ":", longs, NULL);
	if (c != -1)
		return cli_bad_option(c, argv);
	int code = cli_expect_args(argc, argv, optind, 1, "MOUNTPOINT");
	if (code != 0)
		return code;
	const char *path = argv[optind];
	if (control_find_mount(path, &mount) == 0) {
		int r = control_call(mount.dev, request, &ping);
		if (r < 0)
			return unmount_dead(&mount, r);
		daemon_fd = watch_daemon(ping);
	}
	return unmount_live(path, daemon_fd); /* which also says what is wrong with the path */
}

const struct cli_command cli_umount = {
	.name = "umount",
	.synopsis = "umount MOUNTPOINT",
	.summary = "writes everything back, then unmounts",
	.details = "Exits 1 and names each file that could not be written back, or when the mount "
		   "is in use.\n",
	.run = run,
};
