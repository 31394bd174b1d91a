/* SPDX-License-Identifier: MIT */
/*
 * The control channel of a mount: JSON lines over a Unix socket named after the mount's device
 * number.
 *
 * Both ends live here, the server's thread included, so that the protocol is written down once.
 * Knows neither FUSE nor quota: a request is an object {"cmd":NAME,...}, an answer {"ok":true,...}
 * or
 * {"ok":false,"error":TEXT,"exit":1|2}, each on one line.
 */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <json-c/json.h>

/** Who asks, as the kernel says (SO_PEERCRED). */
struct control_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/** Answers one request: returns a new object that the server sends and frees; never NULL. Runs on
 * the connection's thread. */
typedef json_object *control_handler(void *context, const struct control_peer *peer,
				     json_object *request);

struct control_server;

/** Listens for the mount with device number @dev; a stale socket is replaced. 0 or -errno. */
int control_server_new(dev_t dev, control_handler *handler, void *context,
		       struct control_server **ret_server);

/** Stops listening, waits for requests under way, removes the socket. */
void control_server_free(struct control_server *server);

/** {"ok":true}, to be added to. */
json_object *control_ok(void);

/** {"ok":false,"error":...,"exit":@exit_code}. */
json_object *control_error(int exit_code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** One mount as /proc/self/mountinfo has it. */
struct control_mount {
	dev_t dev;
	char *mountpoint; /* heap */
	char *source;     /* heap: the backing directory */
	uid_t owner;      /* who mounted it */
};
void control_mount_fini(struct control_mount *mount);

/** Finds the chokefs mount at @path without touching the mount itself (it may be stalled). 0,
 * -ENOENT (nothing there), -EMEDIUMTYPE (mounted, but not chokefs), -errno. */
int control_find_mount(const char *path, struct control_mount *ret_mount);

/** The same by device number: is something that lies on @dev on a chokefs mount? */
int control_find_device(dev_t dev, struct control_mount *ret_mount);

/** Sends @request to the mount and reads the answer. 0 and *@ret_answer (ok or not), or -errno when
 * nobody answers. */
int control_call(dev_t dev, json_object *request, json_object **ret_answer);

/** control_find_mount() and control_call() with errors said on stderr; takes @request. The answer's
 * "ok" is checked: NULL when it failed, and *@ret_exit is then 1 or 2 as the command line should
 * exit. */
json_object *control_ask(const char *mountpoint, json_object *request, int *ret_exit);

#endif
