/* SPDX-License-Identifier: MIT */
/* Lists and scope-bound ownership: the helpers that everything else leans on. */
#include "base/list.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct item {
	int value;
	struct list link;
};

static void items_fill(struct list *list, struct item *items, int count)
{
	list_init(list);
	for (int i = 0; i < count; i++) {
		items[i].value = i;
		list_init(&items[i].link);
		list_add_tail(list, &items[i].link);
	}
}

/* The values in order as one number, first digit first: 1234. */
static int items_number(struct list *list)
{
	struct item *item;
	int number = 0;
	list_for_each(item, list, link)
		number = number * 10 + item->value;
	return number;
}

START_TEST(entries_come_out_in_the_order_they_were_added)
{
	struct list list;
	struct item items[5];
	items_fill(&list, items, 5);
	ck_assert_int_eq(items_number(&list), 1234);
	list_move_tail(&list, &items[1].link);
	ck_assert_int_eq(items_number(&list), 2341);
	list_del(&items[4].link);
	list_add_head(&list, &items[4].link);
	ck_assert_int_eq(items_number(&list), 40231);
	ck_assert_ptr_eq(list_first(&list, struct item, link), &items[4]);
	ck_assert_ptr_eq(list_last(&list, struct item, link), &items[1]);
}
END_TEST

START_TEST(an_entry_knows_whether_it_is_linked_and_may_be_removed_twice)
{
	struct list list;
	struct item items[2];
	items_fill(&list, items, 2);
	ck_assert(list_is_linked(&items[0].link));
	list_del(&items[0].link);
	list_del(&items[0].link);
	ck_assert(!list_is_linked(&items[0].link));
	ck_assert_int_eq(items_number(&list), 1);
	list_del(&items[1].link);
	ck_assert(list_is_empty(&list));
}
END_TEST

START_TEST(splicing_empties_the_source_and_keeps_both_orders)
{
	struct list to, from;
	struct item a[2], b[4];
	items_fill(&to, a, 2);
	items_fill(&from, b, 4);
	list_splice_tail(&to, &from);
	ck_assert(list_is_empty(&from));
	ck_assert_int_eq(items_number(&to), 10123);
	list_splice_tail(&to, &from);
	ck_assert_int_eq(items_number(&to), 10123);
	list_splice_tail(&from, &to);
	ck_assert(list_is_empty(&to));
	ck_assert_int_eq(items_number(&from), 10123);
}
END_TEST

START_TEST(the_safe_walk_survives_removal_and_free)
{
	struct list list;
	struct item *item, *tmp;
	list_init(&list);
	for (int i = 0; i < 6; i++) {
		item = malloc(sizeof(*item));
		ck_assert_ptr_nonnull(item);
		item->value = i;
		list_add_tail(&list, &item->link);
	}
	list_for_each_safe(item, tmp, &list, link) {
		list_del(&item->link);
		free(item);
	}
	ck_assert(list_is_empty(&list));
}
END_TEST

static int free_calls;

static void count_free(char **text)
{
	if (*text)
		free_calls++;
	free(*text);
}

static char *hand_over(bool really)
{
	_cleanup_(count_free) char *text = malloc(1);
	return really ? take_ptr(text) : NULL;
}

START_TEST(a_pointer_is_freed_at_the_end_of_its_scope_unless_handed_over)
{
	free_calls = 0;
	ck_assert_ptr_null(hand_over(false));
	ck_assert_int_eq(free_calls, 1);
	char *text = hand_over(true);
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(free_calls, 1);
	free(text);
}
END_TEST

START_TEST(a_descriptor_is_closed_at_the_end_of_its_scope_unless_handed_over)
{
	int closed, kept;
	{
		_cleanup_close_ int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
		_cleanup_close_ int b = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(a, 0);
		closed = a;
		kept = take_fd(&b);
		ck_assert_int_eq(b, -1);
	}
	ck_assert_int_eq(fcntl(closed, F_GETFD), -1);
	ck_assert_int_ge(fcntl(kept, F_GETFD), 0);
	close(kept);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base");
	TCase *list = tcase_create("list");
	tcase_add_test(list, entries_come_out_in_the_order_they_were_added);
	tcase_add_test(list, an_entry_knows_whether_it_is_linked_and_may_be_removed_twice);
	tcase_add_test(list, splicing_empties_the_source_and_keeps_both_orders);
	tcase_add_test(list, the_safe_walk_survives_removal_and_free);
	suite_add_tcase(suite, list);
	TCase *cleanup = tcase_create("cleanup");
	tcase_add_test(cleanup, a_pointer_is_freed_at_the_end_of_its_scope_unless_handed_over);
	tcase_add_test(cleanup, a_descriptor_is_closed_at_the_end_of_its_scope_unless_handed_over);
	suite_add_tcase(suite, cleanup);

	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
