/* SPDX-License-Identifier: MIT */
/* A server and its clients in one process: round trips, a slow request beside fast ones, bad input,
 * the end. */
#include "control/private.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/lock.h"

/* "wait" is answered once the gate is open; "echo" says what it was told and by whom. */
struct fixture {
	struct control_server *server;
	dev_t dev;
	struct lock lock;
	struct cond changed;
	bool open;
	unsigned waiting;
};

static json_object *handle(void *context, const struct control_peer *peer, json_object *request)
{
	struct fixture *fixture = context;
	const char *cmd = json_object_get_string(json_object_object_get(request, "cmd"));

	if (strcmp(cmd, "wait") == 0) {
		LOCK_SCOPE(&fixture->lock);
		fixture->waiting++;
		cond_wake_all(&fixture->changed);
		while (!fixture->open)
			cond_wait(&fixture->changed, &fixture->lock);
		return control_ok();
	}
	if (strcmp(cmd, "echo") != 0)
		return control_error(2, "%s: no such command", cmd);
	json_object *answer = control_ok();
	json_object_object_add(answer, "text",
			       json_object_get(json_object_object_get(request, "text")));
	json_object_object_add(answer, "pid", json_object_new_int(peer->pid));
	json_object_object_add(answer, "uid", json_object_new_int64(peer->uid));
	return answer;
}

/* A device number that no mount has. */
static dev_t unused_dev(void)
{
	return makedev(4000, (unsigned)getpid() & 0xfffff);
}

static void set_up(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	lock_init(&fixture->lock);
	cond_init(&fixture->changed);
	fixture->dev = unused_dev();
	ck_assert_int_eq(control_server_new(fixture->dev, handle, fixture, &fixture->server), 0);
}

static void *open_gate(void *arg)
{
	struct fixture *fixture = arg;
	LOCK_SCOPE(&fixture->lock);
	fixture->open = true;
	cond_wake_all(&fixture->changed);
	return NULL;
}

static void wait_for_waiters(struct fixture *fixture, unsigned count)
{
	LOCK_SCOPE(&fixture->lock);
	while (fixture->waiting < count)
		cond_wait(&fixture->changed, &fixture->lock);
}

static json_object *request_of(const char *cmd)
{
	json_object *request = json_object_new_object();
	json_object_object_add(request, "cmd", json_object_new_string(cmd));
	return request;
}

static int call(const struct fixture *fixture, const char *cmd, json_object **ret_answer)
{
	_cleanup_json_ json_object *request = request_of(cmd);
	return control_call(fixture->dev, request, ret_answer);
}

static void *call_wait(void *arg)
{
	struct fixture *fixture = arg;
	_cleanup_json_ json_object *answer = NULL;
	int r = call(fixture, "wait", &answer);
	return (void *)(intptr_t)(r == 0 &&
				  json_object_get_boolean(json_object_object_get(answer, "ok")));
}

/* A raw connection, for what control_call() would never send. */
static int connect_raw(const struct fixture *fixture)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char dir[PATH_MAX / 2];
	ck_assert_int_eq(control_runtime_dir(dir, sizeof(dir)), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/%u:%u.sock", dir,
		 major(fixture->dev), minor(fixture->dev));
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

START_TEST(an_answer_carries_what_was_asked_and_who_the_kernel_says_asked)
{
	struct fixture fixture;
	set_up(&fixture);
	_cleanup_json_ json_object *request = request_of("echo");
	_cleanup_json_ json_object *answer = NULL;
	json_object_object_add(request, "text", json_object_new_string("a\nb \"c\" /"));
	ck_assert_int_eq(control_call(fixture.dev, request, &answer), 0);
	ck_assert_str_eq(json_object_get_string(json_object_object_get(answer, "text")),
			 "a\nb \"c\" /");
	ck_assert_int_eq(json_object_get_int(json_object_object_get(answer, "pid")), getpid());
	ck_assert_int_eq(json_object_get_int64(json_object_object_get(answer, "uid")), geteuid());
	control_server_free(fixture.server);
}
END_TEST

START_TEST(a_slow_request_does_not_hold_up_fast_ones)
{
	struct fixture fixture;
	pthread_t slow[3];
	void *worked;

	set_up(&fixture);
	for (int i = 0; i < 3; i++)
		pthread_create(&slow[i], NULL, call_wait, &fixture);
	wait_for_waiters(&fixture, 3);
	for (int i = 0; i < 50; i++) {
		_cleanup_json_ json_object *answer = NULL;
		ck_assert_int_eq(call(&fixture, "echo", &answer), 0);
	}
	open_gate(&fixture);
	for (int i = 0; i < 3; i++) {
		pthread_join(slow[i], &worked);
		ck_assert_ptr_nonnull(worked);
	}
	control_server_free(fixture.server);
}
END_TEST

START_TEST(free_lets_a_request_under_way_be_answered)
{
	struct fixture fixture;
	pthread_t slow, opener;
	void *worked;

	set_up(&fixture);
	pthread_create(&slow, NULL, call_wait, &fixture);
	wait_for_waiters(&fixture, 1);
	pthread_create(&opener, NULL, open_gate, &fixture);
	control_server_free(fixture.server);
	pthread_join(slow, &worked);
	pthread_join(opener, NULL);
	ck_assert_ptr_nonnull(worked);
}
END_TEST

START_TEST(free_does_not_wait_for_an_idle_connection)
{
	struct fixture fixture;
	char byte;

	set_up(&fixture);
	int fd = connect_raw(&fixture);
	control_server_free(fixture.server);
	ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
	close(fd);
}
END_TEST

START_TEST(nobody_answers_where_no_server_is)
{
	struct fixture fixture;
	_cleanup_json_ json_object *answer = NULL;

	set_up(&fixture);
	control_server_free(fixture.server);
	ck_assert_int_lt(call(&fixture, "echo", &answer), 0);
	ck_assert_ptr_null(answer);
}
END_TEST

START_TEST(a_stale_socket_is_replaced)
{
	struct fixture fixture;
	_cleanup_json_ json_object *answer = NULL;
	char dir[PATH_MAX / 2], path[PATH_MAX];

	ck_assert_int_eq(control_runtime_dir(dir, sizeof(dir)), 0);
	snprintf(path, sizeof(path), "%s/%u:%u.sock", dir, major(unused_dev()),
		 minor(unused_dev()));
	ck_assert_int_eq(mknod(path, S_IFSOCK | 0600, 0), 0);
	set_up(&fixture);
	ck_assert_int_eq(call(&fixture, "echo", &answer), 0);
	control_server_free(fixture.server);
	ck_assert_int_lt(access(path, F_OK), 0);
}
END_TEST

/* Sends @text and reads the answer's "exit". */
static int exit_of(const struct fixture *fixture, const char *text, size_t len)
{
	int fd = connect_raw(fixture);
	_cleanup_(control_reader_fini) struct control_reader reader = { .fd = fd, .max = 1 << 20 };
	_cleanup_json_ json_object *answer = NULL;
	/* The server may hang up before it has read all of it. */
	ck_assert_int_gt(send(fd, text, len, MSG_NOSIGNAL), 0);
	int r = control_receive(&reader, &answer);
	close(fd);
	return r < 0 ? r : json_object_get_int(json_object_object_get(answer, "exit"));
}

START_TEST(what_is_no_request_is_refused_with_a_reason)
{
	static const char *const bad[] = {
		"nonsense\n",
		"[]\n",
		"\n",
		"{}\n",
		"{\"cmd\":1}\n",
		"{\"cmd\":\"echo\"} {}\n",
		"{\"cmd\":\n",
		"{\"cmd\":\"unknown\"}\n",
		"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}\n",
	};
	struct fixture fixture;
	set_up(&fixture);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(exit_of(&fixture, bad[i], strlen(bad[i])) == 2, "%s", bad[i]);
	control_server_free(fixture.server);
}
END_TEST

START_TEST(a_line_without_end_is_cut_off)
{
	struct fixture fixture;
	size_t len = CONTROL_REQUEST_MAX;
	_cleanup_free_ char *text = malloc(len);

	set_up(&fixture);
	memset(text, 'x', len);
	ck_assert_int_eq(exit_of(&fixture, text, len), 2);
	control_server_free(fixture.server);
}
END_TEST

START_TEST(several_requests_may_follow_on_one_connection)
{
	static const char text[] = "{\"cmd\":\"echo\",\"text\":1}\n{\"cmd\":\"echo\",\"text\":2}\n";
	struct fixture fixture;

	set_up(&fixture);
	int fd = connect_raw(&fixture);
	_cleanup_(control_reader_fini) struct control_reader reader = { .fd = fd, .max = 1 << 20 };
	ck_assert_int_gt(send(fd, text, strlen(text), 0), 0);
	for (int i = 1; i <= 2; i++) {
		_cleanup_json_ json_object *answer = NULL;
		ck_assert_int_eq(control_receive(&reader, &answer), 0);
		ck_assert_int_eq(json_object_get_int(json_object_object_get(answer, "text")), i);
	}
	close(fd);
	control_server_free(fixture.server);
}
END_TEST

START_TEST(control_error_names_text_and_exit_code)
{
	_cleanup_json_ json_object *answer = control_error(2, "%s=%d: no", "key", 5);
	ck_assert(!json_object_get_boolean(json_object_object_get(answer, "ok")));
	ck_assert_str_eq(json_object_get_string(json_object_object_get(answer, "error")),
			 "key=5: no");
	ck_assert_int_eq(json_object_get_int(json_object_object_get(answer, "exit")), 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("control");
	TCase *tcase = tcase_create("server");
	tcase_set_timeout(tcase, 30);
	tcase_add_test(tcase, an_answer_carries_what_was_asked_and_who_the_kernel_says_asked);
	tcase_add_test(tcase, a_slow_request_does_not_hold_up_fast_ones);
	tcase_add_test(tcase, free_lets_a_request_under_way_be_answered);
	tcase_add_test(tcase, free_does_not_wait_for_an_idle_connection);
	tcase_add_test(tcase, nobody_answers_where_no_server_is);
	tcase_add_test(tcase, a_stale_socket_is_replaced);
	tcase_add_test(tcase, what_is_no_request_is_refused_with_a_reason);
	tcase_add_test(tcase, a_line_without_end_is_cut_off);
	tcase_add_test(tcase, several_requests_may_follow_on_one_connection);
	tcase_add_test(tcase, control_error_names_text_and_exit_code);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
