/* SPDX-License-Identifier: MIT */
/*
 * A fresh mount for one variant, and its end, whatever happened in between.
 *
 * The daemon runs in the foreground as our child, so that it can be neither lost nor mistaken for another, and is told to
 * unmount should we die (PR_SET_PDEATHSIG). It is spoken to as any user would: by this same
 * program's commands, and by the control channel for the counters.
 */
#include "trials/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sizes.h"
#include "control/control.h"

#define SELF "/proc/self/exe"
#define START_TIMEOUT_NS (30 * NSEC_PER_SEC)
#define STOP_TIMEOUT_NS (60 * NSEC_PER_SEC)
#define POLL_NS (5 * NSEC_PER_MSEC)
#define MAX_ARGS 16

static void nap(uint64_t ns)
{
	struct timespec ts = timespec_of_ns(ns);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static int exit_code_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In the child: a group of its own, so that ^C reaches us alone; nothing of ours is blocked or on stdout. */
static void exec_self(char **argv)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execv(SELF, argv);
	log_error("trial: %s: %s", SELF, strerror(errno));
	_exit(127);
}

static int spawn_self(char **argv, pid_t *ret_pid)
{
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		exec_self(argv);
	*ret_pid = pid;
	return 0;
}

int trial_chokefs(const char *const *args)
{
	char *argv[MAX_ARGS] = { (char *)"chokefs" };
	for (size_t i = 0; args[i]; i++) {
		if (i + 2 >= MAX_ARGS)
			return -E2BIG;
		argv[i + 1] = (char *)args[i];
	}
	pid_t pid = 0;
	int r = spawn_self(argv, &pid);
	if (r < 0)
		return r;
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return exit_code_of(status);
}

/* "key=value,..." on the heap. */
static char *join_switches(const struct trial_pairs *switches)
{
	size_t len = 1;
	for (size_t i = 0; i < switches->count; i++)
		len += strlen(switches->items[i].key) + strlen(switches->items[i].value) + 2;
	char *text = calloc(1, len);
	char *end = text;
	for (size_t i = 0; text && i < switches->count; i++)
		end += sprintf(end, "%s%s=%s", i ? "," : "", switches->items[i].key,
			       switches->items[i].value);
	return text;
}

static int make_place(struct trial_mount *mount)
{
	const char *tmp = getenv("TMPDIR");
	if (asprintf(&mount->dir, "%s/chokefs-trial-XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0) {
		mount->dir = NULL;
		return -ENOMEM;
	}
	if (!mkdtemp(mount->dir)) {
		int r = -errno;
		log_error("trial: %s: %s", mount->dir, strerror(errno));
		free(mount->dir);
		mount->dir = NULL;
		return r;
	}
	if (asprintf(&mount->mountpoint, "%s/mnt", mount->dir) < 0) {
		mount->mountpoint = NULL;
		return -ENOMEM;
	}
	/* Other users must get through. */
	return chmod(mount->dir, 0755) < 0 || mkdir(mount->mountpoint, 0755) < 0 ? -errno : 0;
}

static bool is_up(struct trial_mount *mount)
{
	struct control_mount found = { 0 };
	if (control_find_mount(mount->mountpoint, &found) < 0)
		return false;
	mount->dev = found.dev;
	control_mount_fini(&found);
	_cleanup_json_ json_object *stats = NULL;
	return trial_mount_stats(mount, &stats) == 0;
}

/* 0 once it answers; its exit code when it ends instead. */
static int wait_until_up(struct trial_mount *mount)
{
	uint64_t deadline = clock_now_ns() + START_TIMEOUT_NS;
	while (clock_now_ns() < deadline) {
		int status;
		if (waitpid(mount->pid, &status, WNOHANG) == mount->pid) {
			mount->pid = 0;
			int code = exit_code_of(status);
			return code ? code : 1;
		}
		if (is_up(mount))
			return 0;
		nap(POLL_NS);
	}
	log_error("trial: %s: the daemon does not answer", mount->mountpoint);
	return 1;
}

static void remove_place(struct trial_mount *mount)
{
	if (mount->mountpoint && rmdir(mount->mountpoint) < 0 && errno != ENOENT)
		log_error("trial: %s: %s", mount->mountpoint, strerror(errno));
	if (mount->dir)
		rmdir(mount->dir);
	free(mount->mountpoint);
	free(mount->dir);
	*mount = (struct trial_mount){ 0 };
}

int trial_mount_start(const struct trial *plan, struct trial_mount *ret_mount)
{
	struct trial_mount mount = { 0 };
	_cleanup_free_ char *options = join_switches(&plan->mount);
	int r = options ? make_place(&mount) : -ENOMEM;
	if (r == 0) {
		char *argv[] = { (char *)"chokefs", (char *)"mount", (char *)"-f", (char *)"--scratch",
				 mount.mountpoint, *options ? (char *)"-o" : NULL, options, NULL };
		r = spawn_self(argv, &mount.pid);
	}
	/* A thread begins with the niceness of its creator. Only root may go below 0; others measure what they can. */
	if (r == 0 && plan->nice)
		setpriority(PRIO_PROCESS, (id_t)mount.pid, (int)plan->nice);
	if (r == 0)
		r = wait_until_up(&mount);
	/* The workloads are other users. */
	if (r == 0 && chmod(mount.mountpoint, 01777) < 0)
		r = -errno;
	if (r != 0) {
		trial_mount_stop(&mount);
		return r;
	}
	*ret_mount = mount;
	return 0;
}

static bool wait_for_end(pid_t pid, uint64_t timeout_ns, int *ret_status)
{
	uint64_t deadline = clock_now_ns() + timeout_ns;
	do {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			return true;
		nap(POLL_NS);
	} while (clock_now_ns() < deadline);
	return false;
}

/* For a daemon that does not end by itself. */
static int force_end(const struct trial_mount *mount)
{
	int status;
	log_error("trial: %s: unmounted by force", mount->mountpoint);
	umount2(mount->mountpoint, MNT_DETACH);
	kill(mount->pid, SIGKILL);
	waitpid(mount->pid, &status, 0);
	return 1;
}

int trial_mount_stop(struct trial_mount *mount)
{
	int r = 0, status;
	if (mount->pid > 0) {
		const char *const args[] = { "umount", mount->mountpoint, NULL };
		if (trial_chokefs(args) != 0)
			kill(mount->pid, SIGTERM);
		if (wait_for_end(mount->pid, STOP_TIMEOUT_NS, &status))
			r = exit_code_of(status) ? 1 : 0;
		else
			r = force_end(mount);
	}
	remove_place(mount);
	return r;
}

int trial_mount_stats(const struct trial_mount *mount, json_object **ret_stats)
{
	_cleanup_json_ json_object *request = json_object_new_object();
	_cleanup_json_ json_object *answer = NULL;
	if (!request)
		return -ENOMEM;
	json_object_object_add(request, "cmd", json_object_new_string("stats"));
	int r = control_call(mount->dev, request, &answer);
	if (r < 0)
		return r;
	json_object *stats = json_object_object_get(answer, "stats");
	if (!json_object_is_type(stats, json_type_object))
		return -EPROTO;
	*ret_stats = json_object_get(stats);
	return 0;
}

/* A limit of setquota(8) in whole KiB; NULL is none. */
static void format_kib(const char *limit, char *buf, size_t len)
{
	uint64_t bytes = 0;
	if (limit)
		trial_parse_sum(limit, &bytes);
	snprintf(buf, len, "%lluK", (unsigned long long)div_round_up(bytes, 1024));
}

int trial_mount_set_limit(const struct trial_mount *mount, const struct trial_limits *limits)
{
	char soft[32], hard[32], inodes_soft[32], inodes_hard[32];
	bool group = strncmp(limits->id, "group:", 6) == 0;
	format_kib(limits->bytes_soft, soft, sizeof(soft));
	format_kib(limits->bytes_hard, hard, sizeof(hard));
	snprintf(inodes_soft, sizeof(inodes_soft), "%llu", (unsigned long long)limits->inodes_soft);
	snprintf(inodes_hard, sizeof(inodes_hard), "%llu", (unsigned long long)limits->inodes_hard);
	const char *const args[] = { "setquota",  group ? "-g" : "-u", group ? limits->id + 6 : limits->id,
				     soft,	  hard,		       inodes_soft,
				     inodes_hard, mount->mountpoint,   NULL };
	return trial_chokefs(args);
}

int trial_mount_tune(const struct trial_mount *mount, const char *key, const char *value)
{
	char setting[TRIAL_MAX_TEXT * 2];
	snprintf(setting, sizeof(setting), "%s=%s", key, value);
	const char *const args[] = { "tune", mount->mountpoint, setting, NULL };
	return trial_chokefs(args);
}

uint64_t trial_process_cpu_ns(pid_t pid)
{
	char path[64], line[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	/* The name in brackets may hold anything; fields 14 and 15 are counted from its end. */
	const char *at = strrchr(line, ')');
	unsigned long long user, system;
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		return 0;
	return (user + system) * (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}
