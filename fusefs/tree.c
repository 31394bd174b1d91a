/* SPDX-License-Identifier: MIT */
/*
 * Counting the backing tree: who owns how many inodes and how many blocks.
 *
 * Every inode is counted once, whatever the number of its names; the root counts, the daemon's private directory and what is mounted inside
 * the tree do not. The way down keeps the names still to be visited, not descriptors: any depth costs one of those, and
 * the way up is "..". Nobody may change the tree meanwhile.
 */
#include "fusefs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

#define PROGRESS_EVERY_NS (100 * NSEC_PER_MSEC)

/* Inode numbers that were met already, of those that have more names than one. */
struct seen {
	uint64_t *slots; /* open addressing; 0: free */
	size_t nr, max;	 /* max: a power of two */
};

/* A directory on the way down. */
struct level {
	struct level *up;
	char **names; /* subdirectories still to be visited */
	size_t nr_names, max_names;
};

struct walk {
	struct fs_tree *tree;
	struct seen seen;
	struct level *level;
	int fd; /* the directory of level */
	uint64_t shown_ns;
	bool progress;
};

/* ---- seen ---- */

static bool seen_put(struct seen *seen, uint64_t ino)
{
	size_t at = (size_t)(ino * 0x9e3779b97f4a7c15ull >> 20);
	for (;; at++) {
		uint64_t *slot = &seen->slots[at & (seen->max - 1)];
		if (*slot == ino)
			return false;
		if (*slot == 0) {
			*slot = ino;
			seen->nr++;
			return true;
		}
	}
}

static int seen_grow(struct seen *seen)
{
	struct seen bigger = { .max = seen->max ? seen->max * 2 : 1024 };
	bigger.slots = calloc(bigger.max, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < seen->max; i++) {
		if (seen->slots[i] != 0)
			seen_put(&bigger, seen->slots[i]);
	}
	free(seen->slots);
	*seen = bigger;
	return 0;
}

/* 1: met for the first time, 0: not, -ENOMEM. */
static int seen_add(struct seen *seen, uint64_t ino)
{
	if (seen->nr * 2 >= seen->max && seen_grow(seen) < 0)
		return -ENOMEM;
	return seen_put(seen, ino);
}

/* ---- levels ---- */

static int level_push(struct walk *walk)
{
	struct level *level = calloc(1, sizeof(*level));
	if (!level)
		return -ENOMEM;
	level->up = walk->level;
	walk->level = level;
	return 0;
}

static void level_pop(struct walk *walk)
{
	struct level *level = walk->level;
	walk->level = level->up;
	while (level->nr_names > 0)
		free(level->names[--level->nr_names]);
	free(level->names);
	free(level);
}

static int level_add(struct level *level, const char *name)
{
	if (level->nr_names == level->max_names) {
		size_t max = level->max_names ? level->max_names * 2 : 16;
		char **names = reallocarray(level->names, max, sizeof(*names));
		if (!names)
			return -ENOMEM;
		level->names = names;
		level->max_names = max;
	}
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	level->names[level->nr_names++] = copy;
	return 0;
}

/* ---- counting ---- */

static int complain(const struct walk *walk, const char *name, int error)
{
	char link[64], dir[PATH_MAX] = "?";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", walk->fd);
	ssize_t len = readlink(link, dir, sizeof(dir) - 1);
	if (len >= 0)
		dir[len] = '\0';
	log_error("%s/%s: cannot be counted: %s", dir, name, strerror(error));
	return -error;
}

static int measure(const struct walk *walk, const char *name, uint64_t *ret_bytes)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	_cleanup_close_ int fd = openat(walk->fd, name, O_RDONLY | flags);
	if (fd < 0 && errno == EACCES)
		fd = openat(walk->fd, name, O_WRONLY | flags);
	if (fd < 0)
		return complain(walk, name, errno);
	int r = fs_blocks_measure(fd, walk->tree->block_size, ret_bytes);
	return r < 0 ? complain(walk, name, -r) : 0;
}

static void show_progress(struct walk *walk)
{
	if (!walk->progress || walk->tree->inodes % 256 != 0)
		return;
	uint64_t now_ns = clock_now_ns();
	if (now_ns - walk->shown_ns < PROGRESS_EVERY_NS)
		return;
	walk->shown_ns = now_ns;
	fprintf(stderr, "\rchokefs: counting: %llu files", (unsigned long long)walk->tree->inodes);
}

static int count_inode(struct walk *walk, const char *name, const struct stat *st)
{
	struct fs_tree *tree = walk->tree;
	const struct quota_owner owner = { .id = { st->st_uid, st->st_gid } };
	uint64_t bytes = 0;

	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1) {
		int r = seen_add(&walk->seen, st->st_ino);
		if (r <= 0)
			return r;
	}
	bool has_data = S_ISREG(st->st_mode) && (st->st_size > 0 || st->st_blocks > 0);
	if (has_data && !(tree->known && tree->known(tree->context, st->st_ino, &bytes))) {
		int r = measure(walk, name, &bytes);
		if (r < 0)
			return r;
	}
	quota_usage_add(tree->quota, &owner, bytes, 1);
	tree->inodes++;
	show_progress(walk);
	return 0;
}

static int count_entry(struct walk *walk, const char *name)
{
	struct stat st;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (!walk->level->up && strcmp(name, FS_PRIVATE_DIR) == 0)
		return 0;
	if (fstatat(walk->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return complain(walk, name, errno);
	if (st.st_dev != walk->tree->dev)
		return 0; /* a mount point: not ours */
	int r = count_inode(walk, name, &st);
	if (r == 0 && S_ISDIR(st.st_mode))
		r = level_add(walk->level, name);
	return r;
}

static int count_directory(struct walk *walk)
{
	int fd = openat(walk->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	if (!dir) {
		r = complain(walk, ".", errno);
		cleanup_close(&fd);
		return r;
	}
	for (;;) {
		errno = 0;
		struct dirent *entry = readdir(dir);
		if (!entry) {
			r = errno ? complain(walk, ".", errno) : 0;
			break;
		}
		r = count_entry(walk, entry->d_name);
		if (r < 0)
			break;
	}
	closedir(dir);
	return r;
}

static int go_to(struct walk *walk, const char *name)
{
	int fd = openat(walk->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return complain(walk, name, errno);
	close(walk->fd);
	walk->fd = fd;
	return 0;
}

static int go_down(struct walk *walk)
{
	struct level *level = walk->level;
	_cleanup_free_ char *name = level->names[--level->nr_names];
	int r = go_to(walk, name);
	if (r == 0)
		r = level_push(walk);
	return r < 0 ? r : count_directory(walk);
}

static int walk_all(struct walk *walk)
{
	struct stat st;
	if (fstat(walk->fd, &st) < 0)
		return complain(walk, ".", errno);
	walk->tree->dev = st.st_dev;
	int r = count_inode(walk, ".", &st);
	if (r == 0)
		r = level_push(walk);
	if (r == 0)
		r = count_directory(walk);
	while (r == 0 && walk->level) {
		if (walk->level->nr_names > 0) {
			r = go_down(walk);
			continue;
		}
		level_pop(walk);
		if (walk->level)
			r = go_to(walk, "..");
	}
	return r;
}

int fs_tree_count(struct fs_tree *tree)
{
	struct walk walk = { .tree = tree, .progress = isatty(STDERR_FILENO) };
	walk.fd = openat(tree->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (walk.fd < 0)
		return -errno;
	tree->inodes = 0;
	int r = walk_all(&walk);
	while (walk.level)
		level_pop(&walk);
	free(walk.seen.slots);
	close(walk.fd);
	if (walk.shown_ns > 0)
		fprintf(stderr, "\r%40s\r", "");
	return r;
}
