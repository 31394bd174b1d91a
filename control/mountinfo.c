/* SPDX-License-Identifier: MIT */
/*
 * Finds a mount in /proc/self/mountinfo without touching it.
 *
 * A mount whose workers are all stalled does not answer stat(2), and whoever asks then stalls too.
 * So a path is resolved up to its parent, the last name is appended, and only the kernel's table
 * says whether something is mounted there, what it is, and with what device number.
 */
#include "control/private.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

#define CONTROL_FSTYPE "fuse.chokefs"

/* One line of the table, cut in place. */
struct mountinfo_line {
	dev_t dev;
	char *mountpoint;
	char *fstype;
	char *source;
	char *super_options;
};

void control_mount_fini(struct control_mount *mount)
{
	free(mount->mountpoint);
	free(mount->source);
	*mount = (struct control_mount){ 0 };
}

/* The kernel writes blank, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
		    from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
static bool parse_line(char *line, struct mountinfo_line *ret_line)
{
	char *save = NULL;
	char *fields[6];
	unsigned major, minor;

	for (int i = 0; i < 6; i++) {
		fields[i] = strtok_r(i ? NULL : line, " \n", &save);
		if (!fields[i])
			return false;
	}
	if (sscanf(fields[2], "%u:%u", &major, &minor) != 2)
		return false;
	char *field;
	do {
		field = strtok_r(NULL, " \n", &save);
		if (!field)
			return false;
	} while (strcmp(field, "-") != 0);

	ret_line->dev = makedev(major, minor);
	ret_line->mountpoint = fields[4];
	ret_line->fstype = strtok_r(NULL, " \n", &save);
	ret_line->source = strtok_r(NULL, " \n", &save);
	ret_line->super_options = strtok_r(NULL, " \n", &save);
	if (!ret_line->fstype || !ret_line->source)
		return false;
	unescape(ret_line->mountpoint);
	unescape(ret_line->source);
	return true;
}

static uid_t owner_of(const struct mountinfo_line *line)
{
	unsigned uid;
	const char *at = line->super_options ? strstr(line->super_options, "user_id=") : NULL;
	return at && sscanf(at, "user_id=%u", &uid) == 1 ? uid : 0;
}

static int copy_line(const struct mountinfo_line *line, struct control_mount *ret_mount,
		     char **ret_fstype)
{
	_cleanup_(control_mount_fini) struct control_mount mount = {
		.dev = line->dev,
		.owner = owner_of(line),
		.mountpoint = strdup(line->mountpoint),
		.source = strdup(line->source),
	};
	char *fstype = strdup(line->fstype);
	if (!mount.mountpoint || !mount.source || !fstype) {
		free(fstype);
		return -ENOMEM;
	}
	control_mount_fini(ret_mount);
	free(*ret_fstype);
	*ret_mount = mount;
	*ret_fstype = fstype;
	mount = (struct control_mount){ 0 };
	return 0;
}

/* The last line that fits: of several mounts on one place it is the one on top. */
static int find(FILE *file, const char *path, dev_t dev, struct control_mount *ret_mount,
		char **ret_fstype)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = -ENOENT;

	*ret_mount = (struct control_mount){ 0 };
	*ret_fstype = NULL;
	while (getline(&text, &size, file) >= 0) {
		struct mountinfo_line line;
		if (!parse_line(text, &line))
			continue;
		if (path ? strcmp(line.mountpoint, path) != 0 : line.dev != dev)
			continue;
		r = copy_line(&line, ret_mount, ret_fstype);
		if (r < 0)
			return r;
	}
	return r;
}

int control_mountinfo_find(FILE *file, const char *path, struct control_mount *ret_mount,
			   char **ret_fstype)
{
	return find(file, path, 0, ret_mount, ret_fstype);
}

int control_mountinfo_find_dev(FILE *file, dev_t dev, struct control_mount *ret_mount,
			       char **ret_fstype)
{
	return find(file, NULL, dev, ret_mount, ret_fstype);
}

static int find_in_proc(const char *path, dev_t dev, struct control_mount *ret_mount,
			char **ret_fstype)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
	if (!file)
		return -errno;
	return find(file, path, dev, ret_mount, ret_fstype);
}

/* The absolute path of @path with its last name taken as it is. NULL when that cannot be. */
static char *resolve_parent(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	if (!copy)
		return NULL;
	size_t len = strlen(copy);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return NULL;

	char dir[PATH_MAX];
	if (slash)
		*slash = '\0';
	if (!realpath(!slash ? "." : slash == copy ? "/" : copy, dir))
		return NULL;
	char *full = NULL;
	if (asprintf(&full, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name) < 0)
		return NULL;
	return full;
}

int control_locate(const char *path, struct control_mount *ret_mount, char **ret_fstype)
{
	_cleanup_free_ char *full = resolve_parent(path);
	if (full) {
		int r = find_in_proc(full, 0, ret_mount, ret_fstype);
		if (r != -ENOENT)
			return r;
	}
	_cleanup_free_ char *real = realpath(path, NULL);
	*ret_fstype = NULL;
	if (!real)
		return -errno;
	return find_in_proc(real, 0, ret_mount, ret_fstype);
}

/* Only ours count: others are -EMEDIUMTYPE. Hands @found over. */
static int only_chokefs(struct control_mount *found, const char *fstype,
			struct control_mount *ret_mount)
{
	if (strcmp(fstype, CONTROL_FSTYPE) != 0)
		return -EMEDIUMTYPE;
	*ret_mount = *found;
	*found = (struct control_mount){ 0 };
	return 0;
}

int control_find_mount(const char *path, struct control_mount *ret_mount)
{
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	_cleanup_free_ char *fstype = NULL;
	int r = control_locate(path, &mount, &fstype);
	return r < 0 ? r : only_chokefs(&mount, fstype, ret_mount);
}

int control_find_device(dev_t dev, struct control_mount *ret_mount)
{
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	_cleanup_free_ char *fstype = NULL;
	int r = find_in_proc(NULL, dev, &mount, &fstype);
	return r < 0 ? r : only_chokefs(&mount, fstype, ret_mount);
}
