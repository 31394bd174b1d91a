/* SPDX-License-Identifier: MIT */
/* The arithmetic of limits and grace, row by row as in Linux' fs/quota/dquot.c. */
#include <check.h>
#include <inttypes.h>

#include "quota/private.h"

enum op {
	ADD, /* checked, and added if it fits */
	SUB,
	LIMIT, /* new limits: amount is soft, hard2 is hard */
	SETTLE,
	ROOM, /* the verdict is the room */
};

struct rule {
	const char *fact;
	struct quota_resource before;
	enum op op;
	uint64_t amount, hard2;
	struct quota_terms terms;
	uint64_t verdict;
	int64_t used, expire;
};

#define ON                                                                                         \
	{                                                                                          \
		.now = 1000, .grace = 60, .enforced = true                                         \
	}
#define AT(t)                                                                                      \
	{                                                                                          \
		.now = (t), .grace = 60, .enforced = true                                          \
	}
#define ROOT                                                                                       \
	{                                                                                          \
		.now = 1000, .grace = 60, .enforced = true, .exempt = true                         \
	}
#define OFF                                                                                        \
	{                                                                                          \
		.now = 1000, .grace = 60                                                           \
	}
#define GRACE(g)                                                                                   \
	{                                                                                          \
		.now = 1000, .grace = (g), .enforced = true                                        \
	}

/* a table is read by its columns */
/* clang-format off */
static const struct rule rules[] = {
	/* dquot_add_space(): the hard limit */
	{ "no limit refuses nothing", { 0, 0, 5, 0 }, ADD, 1000000, 0, ON, QUOTA_FITS, 1000005, 0 },
	{ "below the hard limit fits", { 0, 100, 5, 0 }, ADD, 94, 0, ON, QUOTA_FITS, 99, 0 },
	{ "exactly the hard limit fits", { 0, 100, 5, 0 }, ADD, 95, 0, ON, QUOTA_FITS, 100, 0 },
	{ "one above the hard limit is refused", { 0, 100, 5, 0 }, ADD, 96, 0, ON, QUOTA_REFUSED_HARD, 5, 0 },
	{ "at the hard limit nothing fits", { 0, 100, 100, 0 }, ADD, 1, 0, ON, QUOTA_REFUSED_HARD, 100, 0 },
	{ "beyond a lowered hard limit nothing fits", { 0, 50, 80, 0 }, ADD, 1, 0, ON, QUOTA_REFUSED_HARD, 80, 0 },
	{ "a refusal starts no timer", { 10, 100, 5, 0 }, ADD, 96, 0, ON, QUOTA_REFUSED_HARD, 5, 0 },
	{ "a refusal leaves a timer alone", { 10, 100, 50, 1030 }, ADD, 51, 0, ON, QUOTA_REFUSED_HARD, 50, 1030 },
	/* dquot_add_space(): the soft limit */
	{ "exactly the soft limit starts no timer", { 50, 0, 5, 0 }, ADD, 45, 0, ON, QUOTA_FITS, 50, 0 },
	{ "the first crossing fits and starts the timer", { 50, 0, 5, 0 }, ADD, 46, 0, ON, QUOTA_FITS, 51, 1060 },
	{ "the first crossing may be the last byte", { 50, 100, 5, 0 }, ADD, 95, 0, ON, QUOTA_FITS, 100, 1060 },
	{ "a second crossing keeps the timer", { 50, 0, 51, 1030 }, ADD, 1, 0, ON, QUOTA_FITS, 52, 1030 },
	{ "a second before the end still fits", { 50, 0, 51, 1060 }, ADD, 1, 0, AT(1059), QUOTA_FITS, 52, 1060 },
	{ "the end itself is too late", { 50, 0, 51, 1060 }, ADD, 1, 0, AT(1060), QUOTA_REFUSED_GRACE, 51, 1060 },
	{ "after the end is too late", { 50, 0, 51, 1060 }, ADD, 1, 0, AT(9999), QUOTA_REFUSED_GRACE, 51, 1060 },
	{ "hard is named before grace", { 50, 51, 51, 1060 }, ADD, 1, 0, AT(9999), QUOTA_REFUSED_HARD, 51, 1060 },
	{ "over soft without a timer starts it", { 50, 0, 70, 0 }, ADD, 1, 0, ON, QUOTA_FITS, 71, 1060 },
	{ "a late timer does not matter below soft", { 50, 0, 40, 900 }, ADD, 10, 0, ON, QUOTA_FITS, 50, 900 },
	{ "a grace of 0 allows the crossing", { 50, 0, 50, 0 }, ADD, 1, 0, GRACE(0), QUOTA_FITS, 51, 1000 },
	{ "and nothing after it", { 50, 0, 51, 1000 }, ADD, 1, 0, GRACE(0), QUOTA_REFUSED_GRACE, 51, 1000 },
	{ "a grace without end saturates", { 50, 0, 50, 0 }, ADD, 1, 0, GRACE(UINT64_MAX), QUOTA_FITS, 51, INT64_MAX },
	{ "an end at 0 is not 'no timer'", { 50, 0, 50, 0 }, ADD, 1, 0, AT(-60), QUOTA_FITS, 51, 1 },
	{ "soft above hard never matters", { 200, 100, 5, 0 }, ADD, 95, 0, ON, QUOTA_FITS, 100, 0 },
	/* ignore_hardlimit(): the privileged */
	{ "root passes the hard limit", { 0, 100, 100, 0 }, ADD, 50, 0, ROOT, QUOTA_FITS, 150, 0 },
	{ "root starts the timer", { 50, 100, 40, 0 }, ADD, 80, 0, ROOT, QUOTA_FITS, 120, 1060 },
	{ "root passes a late timer and keeps it", { 50, 0, 51, 900 }, ADD, 1, 0, ROOT, QUOTA_FITS, 52, 900 },
	/* limits not enforced */
	{ "off: the hard limit does not refuse", { 0, 100, 100, 0 }, ADD, 50, 0, OFF, QUOTA_FITS, 150, 0 },
	{ "off: no timer starts", { 50, 0, 50, 0 }, ADD, 1, 0, OFF, QUOTA_FITS, 51, 0 },
	{ "off: a late timer does not refuse", { 50, 0, 51, 900 }, ADD, 1, 0, OFF, QUOTA_FITS, 52, 900 },
	/* what can be counted */
	{ "usage cannot pass 2^63-1", { 0, 0, INT64_MAX, 0 }, ADD, 1, 0, ON, QUOTA_REFUSED_RANGE, INT64_MAX, 0 },
	{ "an amount cannot wrap", { 0, 0, 5, 0 }, ADD, UINT64_MAX, 0, ON, QUOTA_REFUSED_RANGE, 5, 0 },
	{ "not for root either", { 0, 0, 5, 0 }, ADD, INT64_MAX, 0, ROOT, QUOTA_REFUSED_RANGE, 5, 0 },
	/* dquot_decr_space() */
	{ "still above soft keeps the timer", { 50, 0, 60, 1030 }, SUB, 9, 0, ON, 0, 51, 1030 },
	{ "down to soft clears the timer", { 50, 0, 60, 1030 }, SUB, 10, 0, ON, 0, 50, 0 },
	{ "below soft clears the timer", { 50, 0, 60, 1030 }, SUB, 60, 0, ON, 0, 0, 0 },
	{ "a late timer is cleared too", { 50, 0, 60, 900 }, SUB, 10, 0, ON, 0, 50, 0 },
	{ "off: a timer is cleared too", { 50, 0, 60, 900 }, SUB, 10, 0, OFF, 0, 50, 0 },
	{ "more than there is gives 0 and the excess", { 50, 0, 60, 1030 }, SUB, 65, 0, ON, 5, 0, 0 },
	/* do_set_dqblk() */
	{ "soft below usage starts a timer", { 0, 0, 60, 0 }, LIMIT, 50, 100, ON, 0, 60, 1060 },
	{ "soft at usage starts none", { 0, 0, 60, 0 }, LIMIT, 60, 100, ON, 0, 60, 0 },
	{ "raised to usage clears the timer", { 50, 0, 60, 1030 }, LIMIT, 60, 100, ON, 0, 60, 0 },
	{ "raised, but still below usage, restarts it", { 50, 0, 60, 1030 }, LIMIT, 55, 100, ON, 0, 60, 1060 },
	{ "set again restarts a late timer", { 50, 0, 60, 900 }, LIMIT, 50, 0, ON, 0, 60, 1060 },
	{ "soft taken away clears the timer", { 50, 0, 60, 1030 }, LIMIT, 0, 100, ON, 0, 60, 0 },
	{ "hard below usage is allowed", { 0, 0, 60, 0 }, LIMIT, 0, 10, ON, 0, 60, 0 },
	/* settle: ours, for recounts */
	{ "settle keeps a timer that runs", { 50, 0, 60, 1030 }, SETTLE, 0, 0, ON, 0, 60, 1030 },
	{ "settle keeps a late timer", { 50, 0, 60, 900 }, SETTLE, 0, 0, ON, 0, 60, 900 },
	{ "settle clears at soft", { 50, 0, 50, 1030 }, SETTLE, 0, 0, ON, 0, 50, 0 },
	{ "settle starts when newly over", { 50, 0, 60, 0 }, SETTLE, 0, 0, ON, 0, 60, 1060 },
	{ "settle starts nothing when off", { 50, 0, 60, 0 }, SETTLE, 0, 0, OFF, 0, 60, 0 },
	/* room, for partial charges */
	{ "room is up to hard", { 0, 100, 40, 0 }, ROOM, 0, 0, ON, 60, 40, 0 },
	{ "room is 0 beyond hard", { 0, 100, 140, 0 }, ROOM, 0, 0, ON, 0, 140, 0 },
	{ "soft does not limit room while grace runs", { 50, 100, 60, 1030 }, ROOM, 0, 0, ON, 40, 60, 1030 },
	{ "soft limits room when grace is over", { 50, 100, 40, 900 }, ROOM, 0, 0, ON, 10, 40, 900 },
	{ "root has all the room there is", { 50, 100, 60, 900 }, ROOM, 0, 0, ROOT, INT64_MAX - 60, 60, 900 },
};
/* clang-format on */

START_TEST(every_rule_gives_the_kernel_s_answer)
{
	const struct rule *rule = &rules[_i];
	struct quota_resource r = rule->before;
	uint64_t verdict = 0;

	switch (rule->op) {
	case ADD:
		verdict = quota_resource_check(&r, rule->amount, &rule->terms);
		if (verdict == QUOTA_FITS)
			quota_resource_add(&r, rule->amount, &rule->terms);
		break;
	case SUB:
		verdict = quota_resource_sub(&r, rule->amount);
		break;
	case LIMIT:
		quota_resource_limit(&r, rule->amount, rule->hard2, &rule->terms);
		break;
	case SETTLE:
		quota_resource_settle(&r, &rule->terms);
		break;
	case ROOM:
		verdict = quota_resource_room(&r, &rule->terms);
		break;
	}
	ck_assert_msg(verdict == rule->verdict, "%s: verdict %" PRIu64 ", expected %" PRIu64,
		      rule->fact, verdict, rule->verdict);
	ck_assert_msg(r.used == rule->used, "%s: used %" PRId64 ", expected %" PRId64, rule->fact,
		      r.used, rule->used);
	ck_assert_msg(r.expire == rule->expire, "%s: expire %" PRId64 ", expected %" PRId64,
		      rule->fact, r.expire, rule->expire);
}
END_TEST

START_TEST(room_is_exactly_what_check_lets_pass)
{
	const struct rule *rule = &rules[_i];
	uint64_t room = quota_resource_room(&rule->before, &rule->terms);

	if (room > 0)
		ck_assert_int_eq(quota_resource_check(&rule->before, room, &rule->terms),
				 QUOTA_FITS);
	ck_assert_int_ne(quota_resource_check(&rule->before, room + 1, &rule->terms), QUOTA_FITS);
}
END_TEST

int main(void)
{
	const int nr_rules = sizeof(rules) / sizeof(rules[0]);
	Suite *suite = suite_create("quota");
	TCase *tcase = tcase_create("quota_resource");

	tcase_add_loop_test(tcase, every_rule_gives_the_kernel_s_answer, 0, nr_rules);
	tcase_add_loop_test(tcase, room_is_exactly_what_check_lets_pass, 0, nr_rules);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
