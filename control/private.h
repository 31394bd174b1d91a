/* SPDX-License-Identifier: MIT */
/* What the files of control/ share. */
#ifndef CONTROL_PRIVATE_H
#define CONTROL_PRIVATE_H

#include <stdio.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "control/control.h"

/** A request is a handful of words; whoever sends more is not our client. */
#define CONTROL_REQUEST_MAX (64u << 10)
/** An answer may list a million ids. */
#define CONTROL_ANSWER_MAX (1u << 30)

/* ---- message.c: JSON lines ---- */

/** Bytes received and not yet given out as lines. */
struct control_reader {
	int fd;
	size_t max; /* longest line, its end included */
	char *buf;
	size_t len, size;
	size_t scanned; /* this many of them hold no newline */
};

void control_reader_fini(struct control_reader *reader);

/** The next line as an object. 0; -EPIPE at the end; -EMSGSIZE too long; -EBADMSG not one JSON
 * object; -errno. */
int control_receive(struct control_reader *reader, json_object **ret_message);

/** Sends @message as one line. 0 or -errno. */
int control_send(int fd, json_object *message);

static inline void control_put(json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(control_put)

/* ---- path.c: where the socket is ---- */

/** The directory of this user's sockets, made if it is missing, refused unless it is ours alone. 0
 * or -errno. */
int control_runtime_dir(char *buf, size_t len);

/** Removes sockets in @dir behind which nobody listens: of daemons that were killed. */
void control_sweep_dead(const char *dir);

/** The candidates a client tries, by @index from 0: sockets of root, of the caller, of @owner.
 *  0, -ENAMETOOLONG (try the next), -ENOENT after the last. */
int control_client_path(unsigned index, dev_t dev, uid_t owner, char *buf, size_t len);

/* ---- mountinfo.c ---- */

/** The topmost mount at exactly @path in @file (mountinfo format), and its type. 0, -ENOENT,
 * -ENOMEM. */
int control_mountinfo_find(FILE *file, const char *path, struct control_mount *ret_mount,
			   char **ret_fstype);

/** A mount of device @dev, likewise. */
int control_mountinfo_find_dev(FILE *file, dev_t dev, struct control_mount *ret_mount,
			       char **ret_fstype);

/** As control_find_mount(); *@ret_fstype tells of what is there (NULL: nothing is). */
int control_locate(const char *path, struct control_mount *ret_mount, char **ret_fstype);

#endif
