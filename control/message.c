/* SPDX-License-Identifier: MIT */
/*
 * JSON lines: one object a line, with a cap on its length and depth.
 *
 * Any user of the machine may talk to the socket of a mount made by root, so the reader trusts
 * nothing: a line without end costs at most the cap, and what is not one whole object is refused.
 */
#include "control/private.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#define CONTROL_DEPTH_MAX 16

json_object *control_ok(void)
{
	json_object *answer = json_object_new_object();
	json_object_object_add(answer, "ok", json_object_new_boolean(true));
	return answer;
}

json_object *control_error(int exit_code, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);

	json_object *answer = json_object_new_object();
	json_object_object_add(answer, "ok", json_object_new_boolean(false));
	json_object_object_add(answer, "error",
			       json_object_new_string(text ? text : "out of memory"));
	json_object_object_add(answer, "exit", json_object_new_int(exit_code));
	return answer;
}

void control_reader_fini(struct control_reader *reader)
{
	free(reader->buf);
	reader->buf = NULL;
}

/* Makes room for more bytes. */
static int reader_grow(struct control_reader *reader)
{
	if (reader->len < reader->size)
		return 0;
	if (reader->size >= reader->max)
		return -EMSGSIZE;
	size_t size = reader->size ? reader->size * 2 : 4096;
	if (size > reader->max)
		size = reader->max;
	char *buf = realloc(reader->buf, size);
	if (!buf)
		return -ENOMEM;
	reader->buf = buf;
	reader->size = size;
	return 0;
}

/* Waits for a whole line; its length, newline included. */
static ssize_t reader_line(struct control_reader *reader)
{
	for (;;) {
		char *end = reader->len > reader->scanned
				    ? memchr(reader->buf + reader->scanned, '\n',
					     reader->len - reader->scanned)
				    : NULL;
		if (end)
			return end - reader->buf + 1;
		reader->scanned = reader->len;
		int r = reader_grow(reader);
		if (r < 0)
			return r;
		ssize_t n =
			recv(reader->fd, reader->buf + reader->len, reader->size - reader->len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EPIPE;
		reader->len += (size_t)n;
	}
}

static void tokener_free(json_tokener **tokener)
{
	if (*tokener)
		json_tokener_free(*tokener);
}

static int parse_object(const char *line, size_t len, json_object **ret_message)
{
	_cleanup_(tokener_free) json_tokener *tokener = json_tokener_new_ex(CONTROL_DEPTH_MAX);
	if (!tokener)
		return -ENOMEM;
	_cleanup_json_ json_object *message = json_tokener_parse_ex(tokener, line, (int)len);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    !json_object_is_type(message, json_type_object))
		return -EBADMSG;
	for (size_t i = json_tokener_get_parse_end(tokener); i < len; i++) {
		if (!strchr(" \t\r\n", line[i]) || !line[i])
			return -EBADMSG;
	}
	*ret_message = take_ptr(message);
	return 0;
}

int control_receive(struct control_reader *reader, json_object **ret_message)
{
	ssize_t len = reader_line(reader);
	if (len < 0)
		return (int)len;
	int r = parse_object(reader->buf, (size_t)len, ret_message);
	reader->len -= (size_t)len;
	reader->scanned = 0;
	memmove(reader->buf, reader->buf + len, reader->len);
	return r;
}

static int send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int control_send(int fd, json_object *message)
{
	size_t len;
	const char *text = json_object_to_json_string_length(
		message, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	if (!text)
		return -ENOMEM;
	int r = send_all(fd, text, len);
	return r < 0 ? r : send_all(fd, "\n", 1);
}
