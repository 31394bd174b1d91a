/* SPDX-License-Identifier: MIT */
/*
 * Whether this backing may be served at this mount point, and by whom.
 *
 * Everything is checked before anything is mounted: a backing that lies in its own mount point
 * would be looked up through the mount, which waits for itself. One backing has one daemon, because
 * two caches over one file would each believe itself right; the lock is an flock(2) in the private
 * directory, which the kernel gives up with the daemon however it dies. What is written in the lock
 * file is only for messages.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include "base/log.h"

#define LOCK_NAME "lock"
#define LOCK_WAIT_NS (60 * NSEC_PER_SEC)
#define LOCK_RETRY_NS (50 * NSEC_PER_MSEC)
#define FUSE_SUPER_MAGIC 0x65735546

/* Is @path @dir, or below it? Both are canonical. */
static bool is_within(const char *path, const char *dir)
{
	size_t len = strlen(dir);
	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* A directory's canonical path and attributes. 0, or the exit code, the reason said. */
static int resolve_directory(const char *path, char **ret_real, struct stat *ret_st)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	if (!real || stat(real, ret_st) < 0) {
		log_error("%s: %s", path, strerror(errno));
		return errno == ENOENT || errno == ENOTDIR ? 2 : 1;
	}
	if (!S_ISDIR(ret_st->st_mode)) {
		log_error("%s: %s", path, strerror(ENOTDIR));
		return 2;
	}
	*ret_real = take_ptr(real);
	return 0;
}

/* Asked of the kernel's table first: what is mounted there may be dead or stalled. */
static int check_not_busy(const char *mountpoint)
{
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	int r = control_find_mount(mountpoint, &mount);
	if (r == 0)
		log_error("%s: busy: chokefs serves %s there", mountpoint, mount.source);
	else if (r == -EMEDIUMTYPE)
		log_error("%s: busy: another file system is mounted there", mountpoint);
	else
		return 0;
	return 1;
}

/* By identity, not by name: a bind mount has another name for the same directory. */
static bool has_ancestor(const char *path, const struct stat *wanted)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st, last = { 0 };

	while (fd >= 0 && fstat(fd, &st) == 0) {
		if (st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino)
			return true;
		if (st.st_dev == last.st_dev && st.st_ino == last.st_ino)
			return false;
		last = st;
		int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = up;
	}
	return false;
}

static int check_apart(const struct fs *fs, const struct stat *backing,
		       const struct stat *mountpoint)
{
	if (backing->st_dev == mountpoint->st_dev && backing->st_ino == mountpoint->st_ino) {
		log_error("%s: backing and mount point are the same directory", fs->backing);
		return 2;
	}
	if (is_within(fs->backing, fs->mountpoint) || has_ancestor(fs->backing, mountpoint)) {
		log_error("%s: the backing is inside the mount point %s", fs->backing,
			  fs->mountpoint);
		return 2;
	}
	if (is_within(fs->mountpoint, fs->backing) || has_ancestor(fs->mountpoint, backing)) {
		log_error("%s: the mount point is inside the backing %s", fs->mountpoint,
			  fs->backing);
		return 2;
	}
	return 0;
}

static int check_not_ours(const struct fs *fs, const struct stat *backing)
{
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	struct statfs statfs_buf;

	if (statfs(fs->backing, &statfs_buf) < 0 || statfs_buf.f_type != FUSE_SUPER_MAGIC)
		return 0;
	if (control_find_device(backing->st_dev, &mount) < 0)
		return 0;
	log_error("%s: the backing lies on a chokefs mount (%s)", fs->backing, mount.mountpoint);
	return 2;
}

static int open_backing(struct fs *fs)
{
	fs->backing_fd = open(fs->backing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs->backing_fd < 0) {
		log_error("%s: %s", fs->backing, strerror(errno));
		return 1;
	}
	if (mkdirat(fs->backing_fd, FS_PRIVATE_DIR, 0700) < 0 && errno != EEXIST) {
		log_error("%s/%s: cannot make it: %s", fs->backing, FS_PRIVATE_DIR,
			  strerror(errno));
		return 1;
	}
	fs->private_fd = openat(fs->backing_fd, FS_PRIVATE_DIR,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fs->private_fd < 0) {
		log_error("%s/%s: %s", fs->backing, FS_PRIVATE_DIR, strerror(errno));
		return 1;
	}
	return 0;
}

int fs_place_max_file_size(int dir_fd, uint64_t *ret_size)
{
	static const char name[] = "size-probe";
	_cleanup_close_ int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	uint64_t size = 0;

	if (fd < 0)
		return -errno;
	unlinkat(dir_fd, name, 0);
	for (int bit = 62; bit >= 0; bit--) {
		if (ftruncate(fd, (off_t)(size | 1ull << bit)) == 0)
			size |= 1ull << bit;
	}
	*ret_size = size;
	return size > 0 ? 0 : -EFBIG;
}

int fs_place_open(struct fs *fs, const char *backing, const char *mountpoint)
{
	struct stat backing_st, mountpoint_st;

	int code = check_not_busy(mountpoint);
	if (code == 0)
		code = resolve_directory(mountpoint, &fs->mountpoint, &mountpoint_st);
	if (code == 0)
		code = resolve_directory(backing, &fs->backing, &backing_st);
	if (code == 0)
		code = check_apart(fs, &backing_st, &mountpoint_st);
	if (code == 0)
		code = check_not_ours(fs, &backing_st);
	if (code == 0)
		code = open_backing(fs);
	if (code == 0)
		fs->backing_dev = backing_st.st_dev;
	return code;
}

/* ---- the lock ---- */

struct holder {
	int pid;
	char mountpoint[PATH_MAX];
};

/* "PID MOUNTPOINT", or "PID " of a check; false while its owner has not written it yet. */
static bool read_holder(int fd, struct holder *ret_holder)
{
	char text[PATH_MAX + 32];
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
	int at = 0;

	if (len <= 0)
		return false;
	text[len] = '\0';
	if (sscanf(text, "%d %n", &ret_holder->pid, &at) < 1 || at == 0)
		return false;
	char *end = strchr(text + at, '\n');
	if (!end)
		return false;
	*end = '\0';
	snprintf(ret_holder->mountpoint, sizeof(ret_holder->mountpoint), "%s", text + at);
	return true;
}

/* Its mount is in the table: it serves, and will go on serving. */
static bool is_serving(const struct holder *holder, const char *backing)
{
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	return control_find_mount(holder->mountpoint, &mount) == 0 &&
	       strcmp(mount.source, backing) == 0;
}

static int complain_of_holder(int fd, const char *backing)
{
	struct holder holder;
	if (!read_holder(fd, &holder))
		log_error("%s: in use by another chokefs", backing);
	else if (!holder.mountpoint[0])
		log_error("%s: being checked by process %d", backing, holder.pid);
	else
		log_error("%s: already served by process %d at %s", backing, holder.pid,
			  holder.mountpoint);
	return -EBUSY;
}

static int write_holder(int fd, const char *mountpoint)
{
	if (ftruncate(fd, 0) < 0 ||
	    dprintf(fd, "%d %s\n", getpid(), mountpoint ? mountpoint : "") < 0)
		return -errno;
	return 0;
}

static int wait_for_lock(int fd, const char *backing)
{
	uint64_t deadline_ns = clock_now_ns() + LOCK_WAIT_NS;
	struct timespec retry = timespec_of_ns(LOCK_RETRY_NS);
	struct holder holder;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK) {
			int r = -errno;
			log_error("%s/%s/%s: %s", backing, FS_PRIVATE_DIR, LOCK_NAME, strerror(-r));
			return r;
		}
		/* One whose mount has gone is writing its last pages. */
		bool known = read_holder(fd, &holder);
		if ((known && is_serving(&holder, backing)) || clock_now_ns() > deadline_ns)
			return complain_of_holder(fd, backing);
		nanosleep(&retry, NULL);
	}
	return 0;
}

int fs_place_lock(int private_fd, const char *backing, const char *mountpoint, int *ret_fd)
{
	_cleanup_close_ int fd =
		openat(private_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		int r = -errno;
		log_error("%s/%s/%s: %s", backing, FS_PRIVATE_DIR, LOCK_NAME, strerror(-r));
		return r;
	}
	int r = wait_for_lock(fd, backing);
	if (r < 0)
		return r;
	r = write_holder(fd, mountpoint);
	if (r < 0) {
		log_error("%s/%s/%s: %s", backing, FS_PRIVATE_DIR, LOCK_NAME, strerror(-r));
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}
