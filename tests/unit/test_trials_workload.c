/* SPDX-License-Identifier: MIT */
/* The processes of a trial, on a plain directory: what they do is done, what they count is what happened. */
#include "trials/private.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"

struct fixture {
	char dir[64];
	struct trial_shared *shared;
	struct trial_workload workload;
	pid_t pid;
};

static struct fixture fixture_new(void)
{
	struct fixture fixture = { .dir = "/tmp/test_trials_XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(fixture.dir));
	fixture.shared = mmap(NULL, sizeof(*fixture.shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(fixture.shared != MAP_FAILED);
	atomic_store(&fixture.shared->phase, TRIAL_PHASE_PAUSE);
	fixture.shared->active[0] = fixture.shared->active[1] = 1;
	fixture.workload = (struct trial_workload){ .name = "w",
						    .uid = UINT64_MAX,
						    .gid = UINT64_MAX,
						    .file = "data",
						    .files = 1,
						    .writers = 1,
						    .write_size = 4096,
						    .read_size = 4096 };
	return fixture;
}

static void start(struct fixture *fixture)
{
	struct trial_task task = { .shared = fixture->shared, .workload = &fixture->workload };
	ck_assert_int_eq(trial_worker_start(task, fixture->dir, &fixture->pid), 0);
}

static bool wait_parked(struct fixture *fixture, int32_t phase)
{
	struct trial_worker *worker = &fixture->shared->workers[0];
	uint64_t deadline = clock_now_ns() + 20 * NSEC_PER_SEC;
	while (clock_now_ns() < deadline) {
		if (atomic_load(&worker->parked) == phase || atomic_load(&worker->ended))
			return true;
		usleep(200);
	}
	return false;
}

static int end(struct fixture *fixture)
{
	int status;
	trial_shared_set_phase(fixture->shared, TRIAL_PHASE_END);
	ck_assert_int_eq(waitpid(fixture->pid, &status, 0), fixture->pid);
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", fixture->dir);
	ck_assert_int_eq(system(command), 0);
	return status;
}

static struct stat stat_data(const struct fixture *fixture)
{
	char path[128];
	struct stat st;
	snprintf(path, sizeof(path), "%s/data", fixture->dir);
	ck_assert_int_eq(stat(path, &st), 0);
	return st;
}

START_TEST(a_writer_writes_what_it_counts)
{
	struct fixture fixture = fixture_new();
	fixture.shared->max_calls[0] = 100;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	ck_assert(wait_parked(&fixture, 0));
	const struct trial_slot *slot = &fixture.shared->slots[0][0];
	ck_assert_uint_eq(slot->calls, 100);
	ck_assert_uint_eq(slot->accepted, 100);
	ck_assert_uint_eq(slot->bytes, 100 * 4096);
	ck_assert_int_eq(stat_data(&fixture).st_size, 100 * 4096);
	ck_assert_uint_eq(stat_data(&fixture).st_mode & 0777, 0600);
	ck_assert_uint_gt(slot->last_ns, slot->first_ns);
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(a_pause_stops_every_call_until_the_next_phase)
{
	struct fixture fixture = fixture_new();
	fixture.workload.span = 1 << 20;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	usleep(20000);
	trial_shared_set_phase(fixture.shared, TRIAL_PHASE_PAUSE);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	uint64_t calls = fixture.shared->slots[0][0].calls;
	ck_assert_uint_gt(calls, 0);
	usleep(20000);
	ck_assert_uint_eq(fixture.shared->slots[0][0].calls, calls);
	trial_shared_set_phase(fixture.shared, 1);
	usleep(20000);
	trial_shared_set_phase(fixture.shared, TRIAL_PHASE_PAUSE);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	ck_assert_uint_gt(fixture.shared->slots[0][1].calls, 0);
	ck_assert_uint_eq(fixture.shared->slots[0][0].calls, calls);
	ck_assert_int_le(stat_data(&fixture).st_size, 1 << 20);
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

/* /dev/full refuses every write for want of room, as a file system at its limit does. */
static void make_full(const struct fixture *fixture)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/data", fixture->dir);
	ck_assert_int_eq(symlink("/dev/full", path), 0);
}

START_TEST(refusals_are_counted_and_not_heeded)
{
	struct fixture fixture = fixture_new();
	make_full(&fixture);
	fixture.workload.ignore_errors = true;
	fixture.shared->max_calls[0] = 2500;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	ck_assert(wait_parked(&fixture, 0));
	const struct trial_slot *slot = &fixture.shared->slots[0][0];
	ck_assert_uint_eq(slot->refused, 2500);
	ck_assert_uint_eq(slot->accepted, 0);
	ck_assert_uint_eq(slot->errors, 0);
	ck_assert_uint_gt(slot->thousand_ns, 0);
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(a_fill_stops_at_the_first_refusal_and_does_not_count_it)
{
	struct fixture fixture = fixture_new();
	make_full(&fixture);
	fixture.workload.ignore_errors = true;
	fixture.shared->stop_at_refusal[0] = true;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	ck_assert(wait_parked(&fixture, 0));
	ck_assert_uint_eq(fixture.shared->slots[0][0].calls, 0);
	ck_assert(!fixture.shared->workers[0].ended);
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(an_error_that_is_heeded_ends_the_worker_with_its_errno)
{
	struct fixture fixture = fixture_new();
	make_full(&fixture);
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	ck_assert(wait_parked(&fixture, 0));
	ck_assert_int_ne(end(&fixture), 0);
	ck_assert(fixture.shared->workers[0].ended);
	ck_assert_int_eq(fixture.shared->workers[0].failed, ENOSPC);
}
END_TEST

START_TEST(a_rate_is_kept)
{
	struct fixture fixture = fixture_new();
	fixture.workload.rate = 4 << 20;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	usleep(500000);
	trial_shared_set_phase(fixture.shared, TRIAL_PHASE_PAUSE);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	const struct trial_slot *slot = &fixture.shared->slots[0][0];
	double seconds = (double)(slot->last_ns - slot->first_ns) / 1e9;
	ck_assert_double_le((double)slot->bytes / seconds, 1.05 * (4 << 20));
	ck_assert_double_ge((double)slot->bytes / seconds, 0.5 * (4 << 20));
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(a_bystander_times_each_kind_of_call)
{
	struct fixture fixture = fixture_new();
	fixture.workload.program = TRIAL_BYSTANDER;
	fixture.workload.interval_ns = NSEC_PER_MSEC;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	trial_shared_set_phase(fixture.shared, 0);
	usleep(100000);
	trial_shared_set_phase(fixture.shared, TRIAL_PHASE_PAUSE);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	const struct trial_slot *slot = &fixture.shared->slots[0][0];
	ck_assert_uint_gt(slot->op[TRIAL_OP_STAT].count, 0);
	ck_assert_uint_eq(slot->op[TRIAL_OP_STAT].count, slot->op[TRIAL_OP_READ].count);
	ck_assert_uint_eq(slot->op[TRIAL_OP_STAT].count, slot->op[TRIAL_OP_WRITE].count);
	ck_assert_uint_eq(slot->errors, 0);
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(prefill_makes_the_file_as_long_as_its_span)
{
	static const enum trial_prefill how[] = { TRIAL_PREFILL_SPARSE, TRIAL_PREFILL_FALLOCATE,
						  TRIAL_PREFILL_WRITE };
	struct fixture fixture = fixture_new();
	fixture.workload.span = 1 << 20;
	fixture.workload.prefill = how[_i];
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	ck_assert_int_eq(stat_data(&fixture).st_size, 1 << 20);
	ck_assert((stat_data(&fixture).st_blocks == 0) == (how[_i] == TRIAL_PREFILL_SPARSE));
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(a_worker_is_the_user_it_stands_for)
{
	if (geteuid() != 0)
		return; /* only root can become another */
	struct fixture fixture = fixture_new();
	ck_assert_int_eq(chmod(fixture.dir, 01777), 0);
	fixture.workload.uid = 12345;
	fixture.workload.gid = 54321;
	start(&fixture);
	ck_assert(wait_parked(&fixture, TRIAL_PHASE_PAUSE));
	ck_assert_uint_eq(stat_data(&fixture).st_uid, 12345);
	ck_assert_uint_eq(stat_data(&fixture).st_gid, 54321);
	ck_assert_int_eq(end(&fixture), 0);
}
END_TEST

START_TEST(a_command_runs_in_the_mount_with_its_name)
{
	struct fixture fixture = fixture_new();
	fixture.workload.command = "echo $MOUNT > $MOUNT/data && exit 7";
	int status;
	ck_assert_int_eq(trial_command_start(&fixture.workload, fixture.dir, &fixture.pid), 0);
	ck_assert_int_eq(waitpid(fixture.pid, &status, 0), fixture.pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	ck_assert_int_eq(stat_data(&fixture).st_size, (off_t)strlen(fixture.dir) + 1);
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", fixture.dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("trials");
	TCase *tcase = tcase_create("trial_worker");
	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, a_writer_writes_what_it_counts);
	tcase_add_test(tcase, a_pause_stops_every_call_until_the_next_phase);
	tcase_add_test(tcase, refusals_are_counted_and_not_heeded);
	tcase_add_test(tcase, a_fill_stops_at_the_first_refusal_and_does_not_count_it);
	tcase_add_test(tcase, an_error_that_is_heeded_ends_the_worker_with_its_errno);
	tcase_add_test(tcase, a_rate_is_kept);
	tcase_add_test(tcase, a_bystander_times_each_kind_of_call);
	tcase_add_loop_test(tcase, prefill_makes_the_file_as_long_as_its_span, 0, 3);
	tcase_add_test(tcase, a_worker_is_the_user_it_stands_for);
	tcase_add_test(tcase, a_command_runs_in_the_mount_with_its_name);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
