/* SPDX-License-Identifier: MIT */
/* Charges, refunds, transfers and recounts over the public functions of a volatile quota. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "quota/private.h"

#define KI 1024ull

static const struct quota_owner alice = {{1000, 100}};
static const struct quota_owner bob = {{1001, 101}};

static struct quota *quota;

static void setup(void)
{
	ck_assert_int_eq(quota_new_volatile(&quota), 0);
}

static void teardown(void)
{
	quota_abandon(quota);
}

static void limit(enum quota_kind kind, uint32_t id, uint64_t bsoft, uint64_t bhard, uint64_t isoft,
		  uint64_t ihard)
{
	const struct quota_limits limits = {bsoft, bhard, isoft, ihard};
	ck_assert_int_eq(quota_set_limits(quota, kind, id, &limits), 0);
}

static struct quota_entry entry(enum quota_kind kind, uint32_t id)
{
	struct quota_entry e;
	quota_get(quota, kind, id, &e);
	return e;
}

/* Charges for good; the verdict. */
static int charge(const struct quota_owner *owner, uint64_t bytes, uint64_t inodes, unsigned flags)
{
	_cleanup_(quota_charge_release) struct quota_charge c = {0};
	int r = quota_charge(quota, owner, bytes, inodes, 4 * KI, flags, &c);
	if (r == 0)
		quota_charge_take(&c);
	return r;
}

static uint64_t charge_partial(const struct quota_owner *owner, uint64_t bytes, uint64_t unit,
			       int *ret_verdict)
{
	struct quota_charge c = {0};
	*ret_verdict = quota_charge(quota, owner, bytes, 0, unit, QUOTA_PARTIAL, &c);
	uint64_t got = c.bytes;
	quota_charge_take(&c);
	return got;
}

START_TEST(a_charge_counts_for_user_and_group)
{
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 8 * KI);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.inodes, 1);
	ck_assert_int_eq(entry(QUOTA_GROUP, 100).usage.bytes, 8 * KI);
	ck_assert_int_eq(entry(QUOTA_GROUP, 100).usage.inodes, 1);
	ck_assert_int_eq(entry(QUOTA_USER, 100).usage.bytes, 0);
}
END_TEST

START_TEST(a_charge_that_the_group_refuses_leaves_no_trace_at_the_user)
{
	limit(QUOTA_USER, 1000, 4 * KI, 0, 0, 0);
	limit(QUOTA_GROUP, 100, 0, 4 * KI, 0, 0);
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.inodes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, 0);
}
END_TEST

START_TEST(space_and_inodes_are_charged_together_or_not_at_all)
{
	limit(QUOTA_USER, 1000, 0, 0, 0, 1);
	ck_assert_int_eq(charge(&alice, 4 * KI, 2, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 0);
	ck_assert_int_eq(charge(&alice, 4 * KI, 1, 0), 0);
	/* the inode limit is reached, and does not concern more space */
	ck_assert_int_eq(charge(&alice, 4 * KI, 0, 0), 0);
}
END_TEST

START_TEST(a_charge_not_taken_gives_itself_back_and_clears_the_timer)
{
	limit(QUOTA_USER, 1000, 4 * KI, 0, 0, 0);
	{
		_cleanup_(quota_charge_release) struct quota_charge c = {0};
		ck_assert_int_eq(quota_charge(quota, &alice, 8 * KI, 3, 1, 0, &c), 0);
		ck_assert_int_ne(entry(QUOTA_USER, 1000).bytes_expire, 0);
	}
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.inodes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, 0);
	ck_assert_int_eq(entry(QUOTA_GROUP, 100).usage.bytes, 0);
}
END_TEST

START_TEST(releasing_twice_gives_back_once)
{
	struct quota_charge c = {0};
	ck_assert_int_eq(charge(&alice, 4 * KI, 0, 0), 0);
	ck_assert_int_eq(quota_charge(quota, &alice, 8 * KI, 0, 1, 0, &c), 0);
	quota_charge_release(&c);
	quota_charge_release(&c);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 4 * KI);
}
END_TEST

START_TEST(a_refused_charge_leaves_the_output_untouched)
{
	struct quota_charge c, same;
	limit(QUOTA_USER, 1000, 0, 1, 0, 0);
	memset(&c, 0x5a, sizeof(c));
	memset(&same, 0x5a, sizeof(same));
	ck_assert_int_eq(quota_charge(quota, &alice, 2, 0, 1, 0, &c), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(memcmp(&c, &same, sizeof(c)), 0);
}
END_TEST

START_TEST(partial_takes_whole_units_up_to_the_hard_limit)
{
	int verdict;
	limit(QUOTA_USER, 1000, 0, 30 * KI, 0, 0);
	ck_assert_uint_eq(charge_partial(&alice, 64 * KI, 8 * KI, &verdict), 24 * KI);
	ck_assert_int_eq(verdict, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 24 * KI);
	ck_assert_uint_eq(charge_partial(&alice, 64 * KI, 8 * KI, &verdict), 0);
	ck_assert_int_eq(verdict, QUOTA_OVER_LIMIT);
	ck_assert_uint_eq(charge_partial(&alice, 4 * KI, 4 * KI, &verdict), 4 * KI);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 28 * KI);
}
END_TEST

START_TEST(partial_takes_what_the_narrower_kind_has_room_for)
{
	int verdict;
	limit(QUOTA_USER, 1000, 0, 64 * KI, 0, 0);
	limit(QUOTA_GROUP, 100, 0, 16 * KI, 0, 0);
	ck_assert_uint_eq(charge_partial(&alice, 64 * KI, 4 * KI, &verdict), 16 * KI);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 16 * KI);
}
END_TEST

START_TEST(partial_takes_all_when_all_fits)
{
	int verdict;
	ck_assert_uint_eq(charge_partial(&alice, 10 * KI, 4 * KI, &verdict), 10 * KI);
}
END_TEST

START_TEST(partial_stops_at_the_soft_limit_once_grace_is_over)
{
	int verdict;
	limit(QUOTA_USER, 1000, 16 * KI, 64 * KI, 0, 0);
	ck_assert_uint_eq(charge_partial(&alice, 20 * KI, 4 * KI, &verdict), 20 * KI);
	quota_set_clock_offset(quota, QUOTA_GRACE_DEFAULT_S + 1);
	ck_assert_uint_eq(charge_partial(&alice, 20 * KI, 4 * KI, &verdict), 0);
	ck_assert_int_eq(verdict, QUOTA_OVER_LIMIT);
	quota_refund(quota, &alice, 12 * KI, 0);
	/* below soft again: a new grace period begins with the next crossing */
	ck_assert_uint_eq(charge_partial(&alice, 20 * KI, 4 * KI, &verdict), 20 * KI);
	ck_assert_int_eq(verdict, 0);
}
END_TEST

START_TEST(inodes_are_never_partial)
{
	struct quota_charge c = {0};
	limit(QUOTA_USER, 1000, 0, 8 * KI, 0, 2);
	ck_assert_int_eq(quota_charge(quota, &alice, 64 * KI, 3, 4 * KI, QUOTA_PARTIAL, &c),
			 QUOTA_OVER_LIMIT);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 0);
}
END_TEST

START_TEST(root_is_counted_and_refused_only_when_told)
{
	limit(QUOTA_USER, 1000, 0, 4 * KI, 0, 0);
	ck_assert_int_eq(charge(&alice, 8 * KI, 0, QUOTA_EXEMPT), 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 8 * KI);
	quota_set_enforce(quota, QUOTA_ENFORCE_ROOT);
	ck_assert_int_eq(charge(&alice, 4 * KI, 0, QUOTA_EXEMPT), QUOTA_OVER_LIMIT);
	quota_set_enforce(quota, QUOTA_ENFORCE_OFF);
	ck_assert_int_eq(charge(&alice, 4 * KI, 0, 0), 0);
	quota_set_enforce(quota, QUOTA_ENFORCE_ON);
	ck_assert_int_eq(charge(&alice, 4 * KI, 0, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 12 * KI);
}
END_TEST

START_TEST(block_and_inode_timers_run_apart)
{
	const struct quota_grace grace = {.bytes_seconds = 100, .inodes_seconds = 200};
	ck_assert_int_eq(quota_set_grace(quota, QUOTA_USER, &grace), 0);
	limit(QUOTA_USER, 1000, 4 * KI, 0, 1, 0);
	int64_t now = quota_now(quota);
	ck_assert_int_eq(charge(&alice, 8 * KI, 2, 0), 0);
	ck_assert_int_ge(entry(QUOTA_USER, 1000).bytes_expire, now + 100);
	ck_assert_int_le(entry(QUOTA_USER, 1000).bytes_expire, now + 102);
	ck_assert_int_ge(entry(QUOTA_USER, 1000).inodes_expire, now + 200);
	quota_set_clock_offset(quota, 150);
	ck_assert_int_eq(charge(&alice, 4 * KI, 0, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(charge(&alice, 0, 1, 0), 0);
	quota_set_clock_offset(quota, 250);
	ck_assert_int_eq(charge(&alice, 0, 1, 0), QUOTA_OVER_LIMIT);
	quota_refund(quota, &alice, 8 * KI, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, 0);
	ck_assert_int_ne(entry(QUOTA_USER, 1000).inodes_expire, 0);
}
END_TEST

START_TEST(refusals_are_counted_by_their_reason)
{
	struct quota_stats stats;
	limit(QUOTA_USER, 1000, 4 * KI, 8 * KI, 0, 1);
	ck_assert_int_eq(charge(&alice, 12 * KI, 0, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(charge(&alice, 0, 2, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(charge(&alice, 5 * KI, 1, 0), 0);
	quota_set_clock_offset(quota, QUOTA_GRACE_DEFAULT_S + 1);
	ck_assert_int_eq(charge(&alice, 1, 0, 0), QUOTA_OVER_LIMIT);
	quota_get_stats(quota, &stats);
	ck_assert_uint_eq(stats.refused_blocks, 2);
	ck_assert_uint_eq(stats.refused_inodes, 1);
	ck_assert_uint_eq(stats.refused_grace, 1);
	ck_assert_uint_eq(stats.ids, 2);
	quota_reset_stats(quota);
	quota_get_stats(quota, &stats);
	ck_assert_uint_eq(stats.refused_blocks + stats.refused_inodes + stats.refused_grace, 0);
}
END_TEST

START_TEST(a_transfer_moves_only_the_kinds_that_change)
{
	const struct quota_owner other_group = {{1000, 101}};
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(quota_transfer(quota, &alice, &other_group, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 8 * KI);
	ck_assert_int_eq(entry(QUOTA_GROUP, 100).usage.bytes, 0);
	ck_assert_int_eq(entry(QUOTA_GROUP, 100).usage.inodes, 0);
	ck_assert_int_eq(entry(QUOTA_GROUP, 101).usage.bytes, 8 * KI);
	ck_assert_int_eq(entry(QUOTA_GROUP, 101).usage.inodes, 1);
}
END_TEST

START_TEST(a_transfer_over_the_limit_moves_nothing)
{
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	limit(QUOTA_GROUP, 101, 0, 4 * KI, 0, 0);
	ck_assert_int_eq(quota_transfer(quota, &alice, &bob, 8 * KI, 1, 0), QUOTA_OVER_LIMIT);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 8 * KI);
	ck_assert_int_eq(entry(QUOTA_USER, 1001).usage.bytes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1001).usage.inodes, 0);
	ck_assert_int_eq(entry(QUOTA_GROUP, 101).usage.inodes, 0);
	ck_assert_int_eq(quota_transfer(quota, &alice, &bob, 8 * KI, 1, QUOTA_EXEMPT), 0);
	ck_assert_int_eq(entry(QUOTA_GROUP, 101).usage.bytes, 8 * KI);
}
END_TEST

START_TEST(a_transfer_to_oneself_is_allowed_over_the_limit)
{
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	limit(QUOTA_USER, 1000, 0, 4 * KI, 0, 0);
	ck_assert_int_eq(quota_transfer(quota, &alice, &alice, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 8 * KI);
}
END_TEST

START_TEST(an_empty_file_cannot_be_given_to_one_who_is_beyond_a_limit)
{
	ck_assert_int_eq(charge(&alice, 0, 1, 0), 0);
	ck_assert_int_eq(charge(&bob, 8 * KI, 0, 0), 0);
	limit(QUOTA_USER, 1001, 0, 4 * KI, 0, 0);
	ck_assert_int_eq(quota_transfer(quota, &alice, &bob, 0, 1, 0), QUOTA_OVER_LIMIT);
}
END_TEST

START_TEST(a_transfer_clears_the_giver_s_timer_and_starts_the_taker_s)
{
	limit(QUOTA_USER, 1000, 4 * KI, 0, 0, 0);
	limit(QUOTA_USER, 1001, 4 * KI, 0, 0, 0);
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(quota_transfer(quota, &alice, &bob, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, 0);
	ck_assert_int_ne(entry(QUOTA_USER, 1001).bytes_expire, 0);
}
END_TEST

START_TEST(a_recount_settles_timers_by_what_was_counted)
{
	limit(QUOTA_USER, 1000, 4 * KI, 0, 0, 0);
	limit(QUOTA_USER, 1001, 4 * KI, 0, 0, 0);
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	ck_assert_int_eq(charge(&bob, 8 * KI, 1, 0), 0);
	int64_t expire = entry(QUOTA_USER, 1000).bytes_expire;
	quota_set_clock_offset(quota, 1000);
	quota_usage_clear(quota);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, expire);
	quota_usage_add(quota, &alice, 6 * KI, 1);
	quota_usage_add(quota, &alice, 6 * KI, 1);
	quota_usage_add(quota, &bob, 4 * KI, 1);
	quota_usage_settle(quota);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 12 * KI);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.inodes, 2);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, expire);
	ck_assert_int_eq(entry(QUOTA_USER, 1001).bytes_expire, 0);
}
END_TEST

START_TEST(a_recount_starts_the_timer_of_who_is_newly_over)
{
	limit(QUOTA_USER, 1000, 4 * KI, 0, 0, 0);
	quota_usage_clear(quota);
	quota_usage_add(quota, &alice, 6 * KI, 1);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, 0);
	int64_t now = quota_now(quota);
	quota_usage_settle(quota);
	ck_assert_int_ge(entry(QUOTA_USER, 1000).bytes_expire, now + QUOTA_GRACE_DEFAULT_S);
}
END_TEST

START_TEST(setting_usage_keeps_a_timer_that_is_due)
{
	const struct quota_usage more = {16 * KI, 2}, less = {4 * KI, 2};
	limit(QUOTA_USER, 1000, 4 * KI, 0, 0, 0);
	ck_assert_int_eq(charge(&alice, 8 * KI, 1, 0), 0);
	int64_t expire = entry(QUOTA_USER, 1000).bytes_expire;
	quota_set_clock_offset(quota, 1000);
	quota_usage_set(quota, QUOTA_USER, 1000, &more);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 16 * KI);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, expire);
	quota_usage_set(quota, QUOTA_USER, 1000, &less);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).bytes_expire, 0);
}
END_TEST

START_TEST(giving_back_more_than_there_is_never_shows_a_negative_usage)
{
#ifdef CHOKEFS_INVARIANTS
	pid_t child = fork();
	if (child == 0) {
		quota_refund(quota, &alice, 8 * KI, 0);
		_exit(0);
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
	ck_assert_int_eq(charge(&alice, 4 * KI, 1, 0), 0);
	quota_refund(quota, &alice, 8 * KI, 2);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, 0);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.inodes, 0);
	ck_assert(atomic_load(&quota->said_excess));
#endif
}
END_TEST

START_TEST(a_list_is_in_order_and_leaves_out_who_has_nothing)
{
	struct quota_entry *entries = NULL, none;
	size_t nr;
	for (uint32_t id = 5000; id > 0; id--) {
		const struct quota_owner owner = {{id * 7919u, 100}};
		ck_assert_int_eq(charge(&owner, id, 0, 0), 0);
	}
	const struct quota_owner gone = {{7919u, 100}};
	quota_refund(quota, &gone, 1, 0);
	ck_assert_int_eq(quota_list(quota, QUOTA_USER, &entries, &nr), 0);
	ck_assert_uint_eq(nr, 4999);
	for (size_t i = 0; i < nr; i++) {
		ck_assert(i == 0 || entries[i - 1].id < entries[i].id);
		ck_assert_int_eq(entries[i].usage.bytes, entries[i].id / 7919u);
	}
	free(entries);
	ck_assert_int_eq(quota_get(quota, QUOTA_USER, 7919u, &none), 0);
	ck_assert_uint_eq(none.id, 7919u);
	ck_assert_int_eq(quota_get(quota, QUOTA_USER, 2 * 7919u, &none), 1);
}
END_TEST

START_TEST(limits_that_cannot_be_stored_are_refused)
{
	const struct quota_limits huge = {.bytes_hard = UINT64_MAX};
	const struct quota_grace endless = {.inodes_seconds = UINT64_MAX};
	ck_assert_int_eq(quota_set_limits(quota, QUOTA_USER, 1000, &huge), -ERANGE);
	ck_assert_int_eq(quota_set_grace(quota, QUOTA_USER, &endless), -ERANGE);
}
END_TEST

START_TEST(a_charge_beyond_what_can_be_counted_is_an_error_and_no_verdict)
{
	ck_assert_int_eq(charge(&alice, INT64_MAX, 0, 0), 0);
	ck_assert_int_eq(charge(&alice, 1, 0, 0), -EOVERFLOW);
}
END_TEST

/* ---- many threads ---- */

#define NR_THREADS 8
#define NR_ROUNDS 20000
#define HARD (24 * 4 * KI) /* less than one thread alone may come to ask for */

struct hammer {
	pthread_t thread;
	pthread_barrier_t *start;
	unsigned seed;
	int64_t held;
	uint64_t refused;
	bool seen_above;
};

static void *hammer_one_id(void *arg)
{
	struct hammer *hammer = arg;

	pthread_barrier_wait(hammer->start);
	for (int i = 0; i < NR_ROUNDS; i++) {
		if (i % 16 == 0)
			sched_yield(); /* few processors: let the others in while something is held */
		_cleanup_(quota_charge_release) struct quota_charge c = {0};
		uint64_t bytes = (1 + (uint64_t)rand_r(&hammer->seed) % 16) * 4 * KI;
		unsigned dice = (unsigned)rand_r(&hammer->seed) % 4;
		int r = quota_charge(quota, &alice, bytes, 1, 4 * KI, dice == 0 ? QUOTA_PARTIAL : 0,
				     &c);
		hammer->seen_above |= entry(QUOTA_USER, 1000).usage.bytes > (int64_t)HARD;
		hammer->refused += r == QUOTA_OVER_LIMIT;
		if (r == 0 && dice < 3) {
			hammer->held += (int64_t)c.bytes;
			quota_charge_take(&c);
		}
		if (hammer->held > (int64_t)(16 * 4 * KI)) {
			quota_refund(quota, &alice, (uint64_t)hammer->held, 0);
			hammer->held = 0;
		}
	}
	return NULL;
}

START_TEST(eight_threads_at_the_limit_of_one_id_are_counted_exactly)
{
	struct hammer hammers[NR_THREADS] = {0};
	struct quota_stats stats;
	pthread_barrier_t start;
	int64_t held = 0;
	uint64_t refused = 0;

	limit(QUOTA_USER, 1000, 0, HARD, 0, 0);
	ck_assert_int_eq(pthread_barrier_init(&start, NULL, NR_THREADS), 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		hammers[i].seed = i;
		hammers[i].start = &start;
		ck_assert_int_eq(
			pthread_create(&hammers[i].thread, NULL, hammer_one_id, &hammers[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(hammers[i].thread, NULL);
		ck_assert(!hammers[i].seen_above);
		held += hammers[i].held;
		refused += hammers[i].refused;
	}
	quota_get_stats(quota, &stats);
	ck_assert_int_eq(entry(QUOTA_USER, 1000).usage.bytes, held);
	ck_assert_int_eq(entry(QUOTA_GROUP, 100).usage.bytes, held);
	ck_assert_uint_eq(stats.refused_blocks, refused);
	ck_assert_uint_gt(refused, 0);
	/* and what is left is exactly what can still be charged */
	int verdict;
	ck_assert_uint_eq(charge_partial(&alice, HARD, 1, &verdict),
			  held == (int64_t)HARD ? 0 : HARD - (uint64_t)held);
}
END_TEST

static void *hammer_transfers(void *arg)
{
	struct hammer *hammer = arg;

	for (int i = 0; i < NR_ROUNDS; i++) {
		struct quota_owner from = {
			{(uint32_t)rand_r(&hammer->seed) % 7, (uint32_t)rand_r(&hammer->seed) % 7}};
		struct quota_owner to = {
			{(uint32_t)rand_r(&hammer->seed) % 7, (uint32_t)rand_r(&hammer->seed) % 7}};
		if (charge(&from, 4 * KI, 1, 0) != 0)
			continue;
		if (quota_transfer(quota, &from, &to, 4 * KI, 1, 0) != 0)
			to = from;
		quota_refund(quota, &to, 4 * KI, 1);
	}
	return NULL;
}

START_TEST(transfers_among_few_ids_never_deadlock_and_add_up_to_nothing)
{
	struct hammer hammers[NR_THREADS] = {0};

	for (uint32_t id = 0; id < 7; id++)
		limit(QUOTA_USER, id, 4 * KI, 8 * KI, 0, 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		hammers[i].seed = i;
		ck_assert_int_eq(
			pthread_create(&hammers[i].thread, NULL, hammer_transfers, &hammers[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(hammers[i].thread, NULL);
	for (uint32_t id = 0; id < 7; id++) {
		ck_assert_int_eq(entry(QUOTA_USER, id).usage.bytes, 0);
		ck_assert_int_eq(entry(QUOTA_USER, id).bytes_expire, 0);
		ck_assert_int_eq(entry(QUOTA_GROUP, id).usage.inodes, 0);
	}
	ck_assert(!atomic_load(&quota->said_excess));
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 120);
	suite_add_tcase(suite, tcase);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("quota");

	TCase *tcase = add_case(suite, "quota_charge");
	tcase_add_test(tcase, a_charge_counts_for_user_and_group);
	tcase_add_test(tcase, a_charge_that_the_group_refuses_leaves_no_trace_at_the_user);
	tcase_add_test(tcase, space_and_inodes_are_charged_together_or_not_at_all);
	tcase_add_test(tcase, a_charge_not_taken_gives_itself_back_and_clears_the_timer);
	tcase_add_test(tcase, releasing_twice_gives_back_once);
	tcase_add_test(tcase, a_refused_charge_leaves_the_output_untouched);
	tcase_add_test(tcase, partial_takes_whole_units_up_to_the_hard_limit);
	tcase_add_test(tcase, partial_takes_what_the_narrower_kind_has_room_for);
	tcase_add_test(tcase, partial_takes_all_when_all_fits);
	tcase_add_test(tcase, partial_stops_at_the_soft_limit_once_grace_is_over);
	tcase_add_test(tcase, inodes_are_never_partial);
	tcase_add_test(tcase, root_is_counted_and_refused_only_when_told);
	tcase_add_test(tcase, block_and_inode_timers_run_apart);
	tcase_add_test(tcase, refusals_are_counted_by_their_reason);
	tcase_add_test(tcase, a_charge_beyond_what_can_be_counted_is_an_error_and_no_verdict);
	tcase_add_test(tcase, eight_threads_at_the_limit_of_one_id_are_counted_exactly);
	tcase = add_case(suite, "quota_transfer");
	tcase_add_test(tcase, a_transfer_moves_only_the_kinds_that_change);
	tcase_add_test(tcase, a_transfer_over_the_limit_moves_nothing);
	tcase_add_test(tcase, a_transfer_to_oneself_is_allowed_over_the_limit);
	tcase_add_test(tcase, an_empty_file_cannot_be_given_to_one_who_is_beyond_a_limit);
	tcase_add_test(tcase, a_transfer_clears_the_giver_s_timer_and_starts_the_taker_s);
	tcase_add_test(tcase, transfers_among_few_ids_never_deadlock_and_add_up_to_nothing);
	tcase = add_case(suite, "quota_usage_settle");
	tcase_add_test(tcase, a_recount_settles_timers_by_what_was_counted);
	tcase_add_test(tcase, a_recount_starts_the_timer_of_who_is_newly_over);
	tcase_add_test(tcase, setting_usage_keeps_a_timer_that_is_due);
	tcase_add_test(tcase, giving_back_more_than_there_is_never_shows_a_negative_usage);
	tcase = add_case(suite, "quota_list");
	tcase_add_test(tcase, a_list_is_in_order_and_leaves_out_who_has_nothing);
	tcase_add_test(tcase, limits_that_cannot_be_stored_are_refused);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
