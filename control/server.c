/* SPDX-License-Identifier: MIT */
/*
 * The daemon's end of the control channel: a thread that accepts, and one for each connection.
 *
 * A count of the whole backing tree may take minutes, and `stats` must be answered meanwhile; so no
 * connection waits for another. Threads are bounded, in all and for each uid but root's, since any
 * user may connect: one who opens connections for sport locks out himself alone. A connection that
 * says nothing for a minute is closed.
 *
 *	control_server_new()      thread: accept          thread: one connection
 *	  bind, listen              poll
 *	  create thread  -------->  accept
 *	                            nr++, create  ----->    receive, handler(), send, ...
 *	control_server_free()                               end of input, or a minute of nothing
 *	  stopping, wake  ------->  returns                 nr--, wake
 *	  shut inputs down  --------------------------->    still answers what is under way
 *	  wait for nr == 0
 *
 * It takes no lock but its own, and none while a handler runs.
 */
#include "control/private.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>

#include "base/list.h"
#include "base/lock.h"

#define CONTROL_CONNECTIONS_MAX 64
#define CONTROL_CONNECTIONS_PER_UID 16
#define CONTROL_IDLE_SECONDS 60
#define CONTROL_SEND_SECONDS 20

/* Locks: I immutable   l lock */
struct control_server {
	control_handler *handler;                               /* [I] */
	void *context;                                          /* [I] */
	int listen_fd;                                          /* [I] */
	int wake_fd;                                            /* [I] readable: stop accepting */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* [I] empty until bound */
	ino_t socket_ino; /* [I] of the socket file: another daemon may have replaced it */
	pthread_t thread; /* [I] */
	struct lock lock;
	struct cond idle;        /* [l] no connection left */
	struct list connections; /* [l] */
	unsigned nr_connections; /* [l] */
};

struct control_connection {
	struct list link;              /* [l] */
	struct control_server *server; /* [I] */
	struct control_peer peer;      /* [I] */
	int fd; /* [I] closed under the lock, so that free() shuts down no other */
};

static json_object *answer_to(struct control_connection *connection, json_object *request)
{
	struct control_server *server = connection->server;
	if (!json_object_is_type(json_object_object_get(request, "cmd"), json_type_string))
		return control_error(2, "request: no \"cmd\" in it");
	return server->handler(server->context, &connection->peer, request);
}

/* Answers requests until the peer has no more. */
static void serve(struct control_connection *connection)
{
	_cleanup_(control_reader_fini) struct control_reader reader = {
		.fd = connection->fd,
		.max = CONTROL_REQUEST_MAX,
	};
	for (;;) {
		_cleanup_json_ json_object *request = NULL;
		_cleanup_json_ json_object *answer = NULL;
		int r = control_receive(&reader, &request);
		if (r == 0)
			answer = answer_to(connection, request);
		else if (r == -EMSGSIZE)
			answer = control_error(2, "request: longer than %u bytes",
					       CONTROL_REQUEST_MAX);
		else if (r == -EBADMSG)
			answer = control_error(2, "request: not a JSON object on one line");
		else
			return;
		if (control_send(connection->fd, answer) < 0 || r == -EMSGSIZE)
			return;
	}
}

static void *connection_main(void *arg)
{
	struct control_connection *connection = arg;
	struct control_server *server = connection->server;

	serve(connection);

	LOCK_SCOPE(&server->lock);
	list_del(&connection->link);
	close(connection->fd);
	free(connection);
	if (--server->nr_connections == 0)
		cond_wake_all(&server->idle);
	return NULL;
}

/* A thread that no signal of the daemon's ever reaches. */
static int start_thread(pthread_t *ret_thread, bool detached, void *(*main)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr,
				    detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(ret_thread, &attr, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static bool has_room_locked(struct control_server *server, uid_t uid)
{
	const struct control_connection *other;
	unsigned same = 0;

	lock_assert_held(&server->lock);
	if (uid == 0 || uid == geteuid())
		return true; /* always heard: who could mend what keeps the others waiting */
	list_for_each (other, &server->connections, link)
		same += other->peer.uid == uid;
	return server->nr_connections < CONTROL_CONNECTIONS_MAX &&
	       same < CONTROL_CONNECTIONS_PER_UID;
}

static void set_timeouts(int fd)
{
	struct timeval idle = { .tv_sec = CONTROL_IDLE_SECONDS };
	struct timeval slow = { .tv_sec = CONTROL_SEND_SECONDS };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slow, sizeof(slow));
}

/* 0, or -errno: the connection is then dropped. */
static int add_connection(struct control_server *server, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	pthread_t thread;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	_cleanup_free_ struct control_connection *connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;
	connection->server = server;
	connection->peer =
		(struct control_peer){ .pid = cred.pid, .uid = cred.uid, .gid = cred.gid };
	connection->fd = fd;

	LOCK_SCOPE(&server->lock);
	if (!has_room_locked(server, cred.uid))
		return -EUSERS;
	int r = start_thread(&thread, true, connection_main, connection);
	if (r < 0)
		return r;
	/* The thread cannot end before it has the lock. */
	list_add_tail(&server->connections, &connection->link);
	server->nr_connections++;
	take_ptr(connection);
	return 0;
}

static void refuse(int fd, int error)
{
	_cleanup_json_ json_object *answer =
		control_error(1, "control: too many connections: %s", strerror(-error));
	control_send(fd, answer);
}

static void *accept_main(void *arg)
{
	struct control_server *server = arg;
	struct pollfd fds[] = {
		{ .fd = server->listen_fd, .events = POLLIN },
		{ .fd = server->wake_fd, .events = POLLIN },
	};

	for (;;) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents)
			return NULL;
		_cleanup_close_ int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0) {
			/* Out of descriptors: the waiting connection stays readable, do not spin on
			 * it. */
			if (errno == EMFILE || errno == ENFILE)
				poll(&fds[1], 1, 100);
			continue;
		}
		set_timeouts(fd);
		int r = add_connection(server, fd);
		if (r < 0)
			refuse(fd, r);
		else
			take_fd(&fd);
	}
}

/* Listens at @path. All may connect: the handler knows who asks. */
static int listen_at(struct control_server *server, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	if (bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (chmod(path, 0666) < 0 || lstat(path, &st) < 0 || listen(server->listen_fd, 128) < 0) {
		int r = -errno;
		unlink(path);
		return r;
	}
	server->socket_ino = st.st_ino;
	return 0;
}

/* Puts the socket where clients look for it. It gets its name only once it listens, so that a name
 * behind which nobody listens is a dead one. The kernel gives a device number to one mount at a
 * time: what had the name has lost its mount. */
static int bind_socket(struct control_server *server, dev_t dev)
{
	char dir[PATH_MAX], path[PATH_MAX], temporary[PATH_MAX];

	int r = control_runtime_dir(dir, sizeof(dir));
	if (r < 0)
		return r;
	control_sweep_dead(dir);
	int n = snprintf(path, sizeof(path), "%s/%u:%u.sock", dir, major(dev), minor(dev));
	if (n < 0 || (size_t)n >= sizeof(server->path))
		return -ENAMETOOLONG;
	snprintf(temporary, sizeof(temporary), "%.90s/%d.new", dir, getpid());
	r = listen_at(server, temporary);
	if (r < 0)
		return r;
	if (rename(temporary, path) < 0) {
		r = -errno;
		unlink(temporary);
		return r;
	}
	memcpy(server->path, path, (size_t)n + 1);
	return 0;
}

static void unlink_socket(struct control_server *server)
{
	struct stat st;
	if (server->path[0] && lstat(server->path, &st) == 0 && st.st_ino == server->socket_ino)
		unlink(server->path);
}

/* What is there before any thread is. */
static void server_fini(struct control_server **ptr)
{
	struct control_server *server = *ptr;
	if (!server)
		return;
	unlink_socket(server);
	cleanup_close(&server->listen_fd);
	cleanup_close(&server->wake_fd);
	cond_fini(&server->idle);
	lock_fini(&server->lock);
	free(server);
}

int control_server_new(dev_t dev, control_handler *handler, void *context,
		       struct control_server **ret_server)
{
	_cleanup_(server_fini) struct control_server *server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->handler = handler;
	server->context = context;
	server->listen_fd = server->wake_fd = -1;
	lock_init(&server->lock);
	cond_init(&server->idle);
	list_init(&server->connections);

	server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listen_fd < 0)
		return -errno;
	server->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (server->wake_fd < 0)
		return -errno;
	int r = bind_socket(server, dev);
	if (r < 0)
		return r;
	r = start_thread(&server->thread, false, accept_main, server);
	if (r < 0)
		return r;
	*ret_server = take_ptr(server);
	return 0;
}

static void wait_for_connections(struct control_server *server)
{
	struct control_connection *connection;

	LOCK_SCOPE(&server->lock);
	list_for_each (connection, &server->connections, link)
		shutdown(connection->fd, SHUT_RD);
	while (server->nr_connections > 0)
		cond_wait(&server->idle, &server->lock);
}

void control_server_free(struct control_server *server)
{
	if (!server)
		return;
	eventfd_write(server->wake_fd, 1);
	pthread_join(server->thread, NULL);
	unlink_socket(server);
	wait_for_connections(server);
	server_fini(&server);
}
