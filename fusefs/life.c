/* SPDX-License-Identifier: MIT */
/*
 * How a mount serves and how it ends.
 *
 * It ends in one of three ways, and always drains: somebody unmounts it; `chokefs umount` asks the
 * daemon to do so and waits to be told what could not be written; or a signal comes. A signal first
 * tries a plain unmount, while the workers still serve, so that pages the kernel holds of mapped
 * files get here; if the mount is in use, or a second signal comes, the session is ended and the
 * mount detached.
 *
 *	signal --> unmount in a thread --> done: the workers read ENODEV, the loop ends by itself
 *	                    |
 *	                    +-- busy, 10 s, second signal --> session exit, nudge the loop
 *
 *	loop ends --> drain --> fs_life_umount() is told --> control channel stops --> daemon goes
 *
 * libfuse waits for its workers in the main thread, on a semaphore that only a signal interrupts:
 * that is what SIGUSR1 is for. All others are blocked everywhere and read by the keeper thread,
 * which also saves the quota's usage from time to time.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/log.h"

#define SAVE_NS (30 * NSEC_PER_SEC)
#define UNMOUNT_PATIENCE_NS (10 * NSEC_PER_SEC)
#define NUDGE_NS (50 * NSEC_PER_MSEC)
#define NAMED_MAX 1000 /* files named when very many could not be written */

/* Locks: I immutable   k the keeper's alone   l lock */
struct fs_life {
	struct fs *fs;        /* [I] */
	pthread_t main;       /* [I] runs the loop */
	pthread_t keeper;     /* [I] */
	int signal_fd;        /* [I] */
	int stop_fd;          /* [I] readable: the keeper returns */
	int unmounted_fd;     /* [I] readable: the unmounting thread is done */
	pthread_t unmounter;  /* [k] */
	bool ending;          /* [k] unmounter was started */
	bool exiting;         /* [k] the session was told to end */
	uint64_t patience_ns; /* [k] until then the unmount may take */
	uint64_t save_ns;     /* [k] when usage is saved next */
	struct lock lock;
	struct cond drained;
	bool is_drained;        /* [l] */
	int drain_result;       /* [l] */
	json_object *unwritten; /* [l] */
};

/* ---- unmounting ---- */

/* fusermount3 is setuid: it unmounts what the caller mounted. */
static int unmount_as_user(const char *mountpoint)
{
	char *argv[] = { "fusermount3", "-u", "-q", "--", (char *)mountpoint, NULL };
	int status;
	pid_t pid;

	int err = posix_spawnp(&pid, "fusermount3", NULL, NULL, argv, environ);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static int unmount(struct fs *fs)
{
	if (!fs->is_root)
		return unmount_as_user(fs->mountpoint);
	return umount2(fs->mountpoint, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

static void *unmounter_main(void *arg)
{
	struct fs_life *life = arg;
	unmount(life->fs); /* whether it worked shows in the loop's end */
	eventfd_write(life->unmounted_fd, 1);
	return NULL;
}

/* ---- the keeper ---- */

static void end_session(struct fs_life *life)
{
	if (life->exiting)
		return;
	life->exiting = true;
	fuse_session_exit(life->fs->session);
}

static void take_signal(struct fs_life *life)
{
	struct signalfd_siginfo info;
	if (read(life->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	wb_cache_shutdown_begin(life->fs->cache);
	if (life->ending) {
		end_session(life);
		return;
	}
	if (pthread_create(&life->unmounter, NULL, unmounter_main, life) != 0) {
		end_session(life);
		return;
	}
	life->ending = true;
	life->patience_ns = clock_now_ns() + UNMOUNT_PATIENCE_NS;
}

static void save_usage(struct fs_life *life)
{
	int r = quota_save(life->fs->quota);
	if (r < 0)
		log_warning("%s: usage was not saved: %s", life->fs->mountpoint, strerror(-r));
	life->save_ns = clock_now_ns() + SAVE_NS;
}

static int poll_timeout_ms(const struct fs_life *life)
{
	uint64_t now_ns = clock_now_ns();
	uint64_t next_ns = life->save_ns;

	if (life->exiting)
		next_ns = now_ns + NUDGE_NS;
	else if (life->ending && life->patience_ns < next_ns)
		next_ns = life->patience_ns;
	return next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / NSEC_PER_MSEC) + 1;
}

static void *keeper_main(void *arg)
{
	struct fs_life *life = arg;
	struct pollfd fds[] = {
		{ .fd = life->stop_fd, .events = POLLIN },
		{ .fd = life->signal_fd, .events = POLLIN },
		{ .fd = life->unmounted_fd, .events = POLLIN },
	};

	for (;;) {
		if (poll(fds, 3, poll_timeout_ms(life)) < 0)
			continue;
		if (fds[0].revents)
			return NULL;
		if (fds[1].revents)
			take_signal(life);
		if (fds[2].revents || (life->ending && clock_now_ns() >= life->patience_ns)) {
			/* Unmounted, the loop is ending anyway; busy, it has to be told. */
			fds[2].fd = -1;
			end_session(life);
		}
		if (life->exiting)
			pthread_kill(life->main, SIGUSR1);
		else if (clock_now_ns() >= life->save_ns)
			save_usage(life);
	}
}

/* ---- start and end ---- */

static void life_fini(struct fs_life **ptr)
{
	struct fs_life *life = *ptr;
	if (!life)
		return;
	cleanup_close(&life->signal_fd);
	cleanup_close(&life->stop_fd);
	cleanup_close(&life->unmounted_fd);
	json_object_put(life->unwritten);
	cond_fini(&life->drained);
	lock_fini(&life->lock);
	free(life);
}

static void ignore_nudge(int signal)
{
}

static int open_descriptors(struct fs_life *life)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	life->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	life->stop_fd = eventfd(0, EFD_CLOEXEC);
	life->unmounted_fd = eventfd(0, EFD_CLOEXEC);
	return life->signal_fd < 0 || life->stop_fd < 0 || life->unmounted_fd < 0 ? -errno : 0;
}

int fs_life_new(struct fs *fs, struct fs_life **ret_life)
{
	_cleanup_(life_fini) struct fs_life *life = calloc(1, sizeof(*life));
	struct sigaction nudge = { .sa_handler = ignore_nudge };

	if (!life)
		return -ENOMEM;
	life->fs = fs;
	life->main = pthread_self();
	life->signal_fd = life->stop_fd = life->unmounted_fd = -1;
	life->save_ns = clock_now_ns() + SAVE_NS;
	lock_init(&life->lock);
	cond_init(&life->drained);
	int r = open_descriptors(life);
	if (r < 0)
		return r;
	sigaction(SIGUSR1, &nudge, NULL);
	int err = pthread_create(&life->keeper, NULL, keeper_main, life);
	if (err)
		return -err;
	*ret_life = take_ptr(life);
	return 0;
}

int fs_life_loop(struct fs_life *life)
{
	struct fs *fs = life->fs;
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	sigset_t nudge;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_max_threads(config, fs->settings.workers);
	/* The main thread alone: workers, which it starts, get the mask that libfuse gives them. */
	sigemptyset(&nudge);
	sigaddset(&nudge, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &nudge, NULL);
	int r = fuse_session_loop_mt(fs->session, config);
	pthread_sigmask(SIG_BLOCK, &nudge, NULL);
	fuse_loop_cfg_destroy(config);
	/* A signal's number is how libfuse reports one; ours end the session without. */
	return r < 0 ? r : 0;
}

void fs_life_free(struct fs_life *life)
{
	if (!life)
		return;
	eventfd_write(life->stop_fd, 1);
	pthread_join(life->keeper, NULL);
	if (life->ending)
		pthread_join(life->unmounter, NULL);
	life_fini(&life);
}

/* ---- draining ---- */

struct survey {
	struct fs *fs;
	json_object *paths;
	size_t count;
};

/* The path as users see it; the inode number where it has no name any more. */
static json_object *name_of(struct fs *fs, struct fs_inode *inode)
{
	_cleanup_fs_fd_ struct fs_fd pinned = { .fd = -1 };
	char link[64], path[PATH_MAX], text[PATH_MAX + 64];
	size_t prefix = strlen(fs->backing);

	snprintf(text, sizeof(text), "%s: inode %llu", fs->mountpoint,
		 (unsigned long long)inode->ino);
	if (fs_inode_fd(fs, inode, &pinned) < 0)
		return json_object_new_string(text);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", pinned.fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	if (len <= 0)
		return json_object_new_string(text);
	path[len] = '\0';
	if (strncmp(path, fs->backing, prefix) == 0 && path[prefix] == '/')
		snprintf(text, sizeof(text), "%s%s", fs->mountpoint, path + prefix);
	return json_object_new_string(text);
}

/* pages is set once and stays while the inode is held, so it is read without the inode's lock,
 * which a stalled worker may have. */
static void survey_inode(struct fs_inode *inode, void *context)
{
	struct survey *survey = context;
	struct wb_file *pages = __atomic_load_n(&inode->pages, __ATOMIC_ACQUIRE);

	if (!pages || !wb_file_is_dirty(pages))
		return;
	if (survey->count++ < NAMED_MAX)
		json_object_array_add(survey->paths, name_of(survey->fs, inode));
}

int fs_drain(struct fs *fs, json_object **ret_paths)
{
	struct survey survey = { .fs = fs, .paths = json_object_new_array() };
	int r = wb_cache_sync(fs->cache);

	/* Without an error what is dirty now was written since. */
	if (r < 0)
		fs_inodes_each(fs, survey_inode, &survey);
	*ret_paths = survey.paths;
	return r;
}

size_t fs_life_drain(struct fs_life *life)
{
	struct fs *fs = life->fs;
	json_object *paths;

	wb_cache_shutdown_begin(fs->cache);
	int r = fs_drain(fs, &paths);
	size_t count = json_object_array_length(paths);
	for (size_t i = 0; i < count; i++)
		log_error("%s: not written back: %s",
			  json_object_get_string(json_object_array_get_idx(paths, i)),
			  strerror(-r));

	LOCK_SCOPE(&life->lock);
	life->unwritten = paths;
	life->drain_result = r;
	life->is_drained = true;
	cond_wake_all(&life->drained);
	return r < 0 && count == 0 ? 1 : count;
}

int fs_life_umount(struct fs_life *life, json_object **ret_paths, int *ret_error)
{
	json_object *early;

	/* While the mount is still whole: what takes long should not take long without it. */
	fs_drain(life->fs, &early);
	json_object_put(early);
	int r = unmount(life->fs);
	if (r < 0)
		return r;

	LOCK_SCOPE(&life->lock);
	while (!life->is_drained)
		cond_wait(&life->drained, &life->lock);
	*ret_paths = json_object_get(life->unwritten);
	*ret_error = life->drain_result;
	return 0;
}
