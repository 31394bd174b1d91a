/* SPDX-License-Identifier: MIT */
/*
 * Where the socket of a mount is.
 *
 * It is named after the mount's device number, because that can be read from mountinfo without
 * touching a mount that may be stalled. Root's sockets are in /run/chokefs; those of other users in
 * $XDG_RUNTIME_DIR/chokefs, or in /tmp/chokefs-UID where that is not set. A directory in /tmp could
 * have been laid there by anybody, so whoever listens checks that it is his alone, and whoever
 * connects checks who answers (client.c).
 */
#include "control/private.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define CONTROL_ROOT_DIR "/run/chokefs"

static int check_printed(size_t len, int printed)
{
	return printed < 0 || (size_t)printed >= len ? -ENAMETOOLONG : 0;
}

static int user_dir(char *buf, size_t len)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	/* The name of the socket must fit into sun_path too. */
	if (runtime && runtime[0] == '/' && snprintf(buf, len, "%s/chokefs", runtime) < 80)
		return 0;
	return check_printed(len, snprintf(buf, len, "/tmp/chokefs-%u", geteuid()));
}

/* Ours alone: nobody else can have put a socket there, or can replace ours. */
static int check_dir(const char *dir)
{
	struct stat st;
	if (lstat(dir, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

int control_runtime_dir(char *buf, size_t len)
{
	bool root = geteuid() == 0;
	mode_t mode = root ? 0755 : 0700;
	int r = root ? check_printed(len, snprintf(buf, len, CONTROL_ROOT_DIR))
		     : user_dir(buf, len);
	if (r < 0)
		return r;
	if (mkdir(buf, mode) == 0)
		chmod(buf, mode); /* whatever the umask */
	else if (errno != EEXIST)
		return -errno;
	return check_dir(buf);
}

/* Does somebody listen at @path? When in doubt, yes. */
static bool is_alive(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path))
		return true;
	memcpy(address.sun_path, path, strlen(path) + 1);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
	       errno != ECONNREFUSED;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

void control_sweep_dead(const char *dir)
{
	_cleanup_(close_dir) DIR *entries = opendir(dir);
	const struct dirent *entry;

	while (entries && (entry = readdir(entries))) {
		char path[PATH_MAX];
		size_t len = strlen(entry->d_name);
		if (len < 6 || strcmp(entry->d_name + len - 5, ".sock") != 0)
			continue;
		if (check_printed(sizeof(path),
				  snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name)) == 0 &&
		    !is_alive(path))
			unlink(path);
	}
}

int control_client_path(unsigned index, dev_t dev, uid_t owner, char *buf, size_t len)
{
	char dir[PATH_MAX];
	int n;

	if (index == 0)
		n = snprintf(dir, sizeof(dir), CONTROL_ROOT_DIR);
	else if (index == 1)
		n = user_dir(dir, sizeof(dir)) < 0 ? -1 : 0;
	else if (index == 2)
		n = snprintf(dir, sizeof(dir), "/run/user/%u/chokefs", owner);
	else if (index == 3)
		n = snprintf(dir, sizeof(dir), "/tmp/chokefs-%u", owner);
	else
		return -ENOENT;
	if (n < 0)
		return -ENAMETOOLONG;
	return check_printed(len, snprintf(buf, len, "%s/%u:%u.sock", dir, major(dev), minor(dev)));
}
