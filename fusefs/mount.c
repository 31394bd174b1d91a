/* SPDX-License-Identifier: MIT */
/*
 * A mount from the command line to the exit code.
 *
 *	parent                      daemon
 *	  options
 *	  fork ------------------->   session of its own
 *	  waits                       place, lock, quota, recount, cache, inodes, mount, control
 *	  exits with its code  <---   usable: one byte
 *	                              loop, drain, close
 *
 * Whatever fails before the byte is sent is said by the daemon on the terminal it still has, and
 * its exit code becomes the parent's. fs_end() takes down whatever there is, in the reverse order,
 * so every step may fail alike.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/log.h"

/* What one run has beside struct fs. */
struct run {
	struct fs *fs;
	const struct fs_mount_args *args;
	struct fs_options options;
	int ready_fd; /* -1 in the foreground */
	int lock_fd;
	bool mounted;
	char *scratch;  /* heap: to be removed */
	char *database; /* heap */
};

static struct fs *fs_new(void)
{
	struct fs *fs = calloc(1, sizeof(*fs));
	pthread_rwlockattr_t attr;

	if (!fs)
		return NULL;
	fs->backing_fd = fs->private_fd = -1;
	fs->mounter = getuid();
	fs->is_root = geteuid() == 0;
	fs->start_ns = clock_now_ns();
	lock_init(&fs->settings_lock);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&fs->freeze, &attr);
	pthread_rwlockattr_destroy(&attr);
	fs_settings_init(fs);
	return fs;
}

static void fs_free(struct fs *fs)
{
	cleanup_close(&fs->private_fd);
	cleanup_close(&fs->backing_fd);
	free(fs->backing);
	free(fs->mountpoint);
	pthread_rwlock_destroy(&fs->freeze);
	lock_fini(&fs->settings_lock);
	free(fs);
}

/* ---- the process ---- */

/* As a file server: no umask of ours, all the descriptors there are. */
static void prepare_process(const struct fs *fs)
{
	struct rlimit files;

	umask(0);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/* Taking a caller's uid must not cost the capabilities: creds.c. Inherited by every thread.
	 */
	if (fs->is_root && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		log_warning("cannot keep capabilities across changes of uid: %s", strerror(errno));
}

/* Signals are the keeper's, from here on and in every thread. */
static void block_signals(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&set, faults[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* The terminal is given up only now: until here it was told what went wrong. */
static void tell_ready(struct run *run)
{
	if (run->ready_fd < 0)
		return;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd >= 0) {
		dup2(null_fd, STDIN_FILENO);
		dup2(null_fd, STDOUT_FILENO);
		dup2(null_fd, STDERR_FILENO);
		if (null_fd > STDERR_FILENO)
			close(null_fd);
	}
	log_to_syslog();
	if (chdir("/") < 0)
		log_warning("cannot leave the working directory: %s", strerror(errno));
	if (write(run->ready_fd, "", 1) != 1)
		log_warning("%s: nobody waits for the mount", run->fs->mountpoint);
	close(take_fd(&run->ready_fd));
}

/* ---- scratch ---- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	if (remove(path) < 0)
		log_warning("%s: not removed: %s", path, strerror(errno));
	return 0;
}

static int make_scratch(struct run *run)
{
	const char *base = getenv("TMPDIR");
	if (asprintf(&run->scratch, "%s/chokefs-XXXXXX", base && *base ? base : "/var/tmp") < 0) {
		run->scratch = NULL;
		return 1;
	}
	if (!mkdtemp(run->scratch)) {
		log_error("%s: %s", run->scratch, strerror(errno));
		free(take_ptr(run->scratch));
		return 1;
	}
	/* Its root is the root of a file system: open as / is; what is private in it has its own
	 * mode. */
	if (run->fs->is_root)
		chmod(run->scratch, 01777);
	return 0;
}

static void remove_scratch(struct run *run)
{
	if (!run->scratch)
		return;
	nftw(run->scratch, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	free(take_ptr(run->scratch));
}

/* ---- the steps to a mount: each 0 or an exit code, the reason said ---- */

static int fail(const char *what, int error)
{
	log_error("%s: %s", what, strerror(-error));
	return 1;
}

static int take_place(struct run *run)
{
	struct fs *fs = run->fs;
	int code = run->args->scratch ? make_scratch(run) : 0;
	if (code == 0)
		code = fs_place_open(fs, run->scratch ? run->scratch : run->args->backing,
				     run->args->mountpoint);
	if (code == 0 &&
	    fs_place_lock(fs->private_fd, fs->backing, fs->mountpoint, &run->lock_fd) < 0)
		code = 1;
	if (code == 0 && fs_place_max_file_size(fs->private_fd, &fs->max_file_size) < 0)
		fs->max_file_size = INT64_MAX; /* read-only: nothing is written anyway */
	return code;
}

static int open_quota(struct run *run)
{
	struct fs *fs = run->fs;
	_cleanup_free_ char *why = NULL;
	bool clean;

	if (asprintf(&run->database, "%s/%s/quota.db", fs->backing, FS_PRIVATE_DIR) < 0) {
		run->database = NULL;
		return fail("quota", -ENOMEM);
	}
	int r = quota_open(run->database, &fs->quota, &clean, &why);
	if (r == -EUCLEAN) {
		log_error("%s: %s: `chokefs quotacheck --repair %s` rebuilds usage, limits that "
			  "can be "
			  "read are kept",
			  run->database, why ? why : "damaged", fs->backing);
		return 1;
	}
	if (r < 0)
		return fail(run->database, r);
	/* The switches were parsed before there was a quota. */
	char *refused = NULL;
	r = fs_settings_change(fs, NULL, 0, true, &refused);
	free(refused);
	if (r == 0 && fs_recount_is_due(fs, clean))
		r = fs_recount(fs);
	return r < 0 ? fail(fs->backing, r) : 0;
}

static int open_cache(struct run *run)
{
	struct fs *fs = run->fs;
	block_signals();
	int r = wb_cache_new(&fs->settings.wb, &fs->cache);
	if (r < 0)
		return fail("cache", r);
	r = fs_inodes_new(fs);
	return r < 0 ? fail(fs->backing, r) : 0;
}

static void libfuse_says(enum fuse_log_level level, const char *format, va_list args)
{
	char text[512];
	if (level > FUSE_LOG_WARNING)
		return;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	log_warning("%s", text);
}

/* fsname=, with what separates options in it escaped as libfuse reads it. */
static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == ',' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static char *session_options(struct run *run)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fputs("subtype=chokefs,default_permissions", out);
	if (run->fs->is_root)
		fputs(",suid,dev", out); /* what follows may take them back */
	if (run->options.allow_other)
		fputs(",allow_other", out);
	if (run->options.kernel)
		fprintf(out, ",%s", run->options.kernel);
	fputs(",fsname=", out);
	put_escaped(out, run->fs->backing);
	fclose(out);
	return text;
}

static int mount_session(struct run *run)
{
	struct fs *fs = run->fs;
	_cleanup_free_ char *options = session_options(run);
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };

	if (!options)
		return fail("mount", -ENOMEM);
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		return fail("/dev/fuse", -errno);
	char *argv[] = { "chokefs", "-o", options, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	fuse_set_log_func(libfuse_says);
	fs->session = fuse_session_new(&args, &fs_lowlevel_ops, sizeof(fs_lowlevel_ops), fs);
	fuse_opt_free_args(&args);
	if (!fs->session) {
		log_error("%s: libfuse does not take the options %s", fs->mountpoint, options);
		return 1;
	}
	if (fuse_session_mount(fs->session, fs->mountpoint) < 0) {
		log_error("%s: cannot mount there", fs->mountpoint);
		return 1;
	}
	run->mounted = true;
	int r = fs_channel_attach(fs);
	if (r < 0)
		return fail(fs->mountpoint, r);
	r = control_find_mount(fs->mountpoint, &mount);
	if (r < 0)
		return fail(fs->mountpoint, r);
	fs->mount_dev = mount.dev;
	return 0;
}

static int open_control(struct run *run)
{
	struct fs *fs = run->fs;
	int r = fs_life_new(fs, &fs->life);
	if (r < 0)
		return fail(fs->mountpoint, r);
	r = control_server_new(fs->mount_dev, fs_control_handle, fs, &fs->control);
	return r < 0 ? fail("control socket", r) : 0;
}

/* ---- and back ---- */

static int close_quota(struct run *run)
{
	struct fs *fs = run->fs;
	if (!fs->quota)
		return 0;
	int r = quota_close(take_ptr(fs->quota));
	return r < 0 ? fail(run->database, r) : 0;
}

/* Takes down what there is. 1 if something could not be kept. */
static int fs_end(struct run *run)
{
	struct fs *fs = run->fs;
	int code = 0;

	if (run->mounted)
		fuse_session_unmount(fs->session);
	if (fs->life && fs_life_drain(fs->life) > 0)
		code = 1;
	control_server_free(take_ptr(fs->control));
	fs_life_free(take_ptr(fs->life));
	if (fs->inodes)
		fs_inodes_free(fs);
	if (fs->cache)
		wb_cache_free(take_ptr(fs->cache));
	if (fs->session)
		fuse_session_destroy(take_ptr(fs->session));
	if (close_quota(run) != 0)
		code = 1;
	remove_scratch(run);
	cleanup_close(&run->lock_fd);
	free(take_ptr(run->database));
	return code;
}

static int serve(struct run *run)
{
	static int (*const steps[])(struct run *) = { take_place, open_quota, open_cache,
						      mount_session, open_control };

	prepare_process(run->fs);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int code = steps[i](run);
		if (code != 0) {
			fs_end(run);
			return code;
		}
	}
	tell_ready(run);
	int r = fs_life_loop(run->fs->life);
	if (r < 0)
		log_error("%s: %s", run->fs->mountpoint, strerror(-r));
	int code = fs_end(run);
	return r < 0 ? 1 : code;
}

/* In the parent: what the daemon has to say, or what became of it. */
static int wait_ready(pid_t pid, int fd)
{
	char ready;
	int status;
	ssize_t n;

	do {
		n = read(fd, &ready, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1)
		return 0;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 1;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		return WEXITSTATUS(status);
	if (WIFSIGNALED(status))
		log_error("mount: the daemon died of signal %d", WTERMSIG(status));
	return 1;
}

static int serve_in_background(struct run *run)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail("mount", -errno);
	_cleanup_close_ int ready = fds[0];
	pid_t pid = fork();
	if (pid < 0) {
		int r = -errno;
		close(fds[1]);
		return fail("mount", r);
	}
	if (pid > 0) {
		close(fds[1]);
		return wait_ready(pid, ready);
	}
	setsid();
	run->ready_fd = fds[1];
	exit(serve(run));
}

int fs_mount_run(const struct fs_mount_args *args)
{
	struct fs *fs = fs_new();
	struct run run = { .fs = fs, .args = args, .ready_fd = -1, .lock_fd = -1 };

	if (!fs)
		return fail("mount", -ENOMEM);
	int code = 2;
	if (fs_options_parse(fs, args->options, &run.options) == 0)
		code = args->foreground ? serve(&run) : serve_in_background(&run);
	fs_options_fini(&run.options);
	fs_free(fs);
	return code;
}
