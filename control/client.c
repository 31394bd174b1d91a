/* SPDX-License-Identifier: MIT */
/*
 * The command line's end of the control channel.
 *
 * Sockets of users are in places where anybody may have put one, so an answer counts only if it
 * comes from root or from the user who mounted: the kernel says which (SO_PEERCRED).
 */
#include "control/private.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"

static bool is_trusted(int fd, uid_t owner)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	return cred.uid == 0 || cred.uid == owner;
}

/* A connected socket or -errno. */
static int connect_to(const char *path, uid_t owner)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);

	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return is_trusted(fd, owner) ? take_fd(&fd) : -EPERM;
}

/* Tries every place; the error is the most telling one: a place that is not there says nothing. */
static int connect_to_mount(dev_t dev)
{
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	uid_t owner = control_find_device(dev, &mount) == 0 ? mount.owner : geteuid();
	char path[PATH_MAX];
	int error = -ENOENT;

	for (unsigned i = 0;; i++) {
		int r = control_client_path(i, dev, owner, path, sizeof(path));
		if (r == -ENOENT)
			return error;
		if (r == 0)
			r = connect_to(path, owner);
		if (r >= 0)
			return r;
		if (r != -ENOENT && r != -ENAMETOOLONG)
			error = r;
	}
}

int control_call(dev_t dev, json_object *request, json_object **ret_answer)
{
	_cleanup_close_ int fd = connect_to_mount(dev);
	if (fd < 0)
		return fd;
	_cleanup_(control_reader_fini) struct control_reader reader = {
		.fd = fd,
		.max = CONTROL_ANSWER_MAX,
	};
	int r = control_send(fd, request);
	return r < 0 ? r : control_receive(&reader, ret_answer);
}

/* What is at @path, if it is no mount of ours, in one line. */
static void complain_of_path(const char *path, int error, const char *fstype)
{
	struct stat st;
	if (fstype)
		log_error("%s: not a chokefs mount (it is %s)", path, fstype);
	else if (error == -ENOENT && lstat(path, &st) == 0)
		log_error("%s: not a mount point", path);
	else
		log_error("%s: %s", path, strerror(-error));
}

/* 0 and the mount, or the exit code, the reason said. */
static int find_or_complain(const char *path, struct control_mount *ret_mount)
{
	int r = control_find_mount(path, ret_mount);
	if (r == 0)
		return 0;
	_cleanup_(control_mount_fini) struct control_mount other = { 0 };
	_cleanup_free_ char *fstype = NULL;
	if (r == -EMEDIUMTYPE)
		control_locate(path, &other, &fstype);
	complain_of_path(path, r, fstype);
	return 2;
}

json_object *control_ask(const char *mountpoint, json_object *request, int *ret_exit)
{
	_cleanup_json_ json_object *owned_request = request;
	_cleanup_json_ json_object *answer = NULL;
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };

	int r = find_or_complain(mountpoint, &mount);
	if (r != 0) {
		*ret_exit = r;
		return NULL;
	}
	r = control_call(mount.dev, request, &answer);
	if (r < 0) {
		log_error("%s: no answer from its daemon: %s", mountpoint, strerror(-r));
		*ret_exit = 1;
		return NULL;
	}
	if (json_object_get_boolean(json_object_object_get(answer, "ok")))
		return take_ptr(answer);
	const char *why = json_object_get_string(json_object_object_get(answer, "error"));
	int code = json_object_get_int(json_object_object_get(answer, "exit"));
	log_error("%s", why ? why : "control: an answer without a reason");
	*ret_exit = code == 2 ? 2 : 1;
	return NULL;
}
