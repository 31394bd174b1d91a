/* SPDX-License-Identifier: MIT */
/*
 * How a row proves that it is whole.
 *
 * SQLite finds a damaged tree, but not a damaged number in it. Each row carries a sum over its
 * table, its key and all its values, so that a flipped bit is found at opening, and a row can be
 * trusted wherever it is found on a damaged database's pages. It also carries a stamp that rises
 * with every write, by which the newest of several copies is known. The sum guards against
 * accidents, not against people.
 */
#include "quota/private.h"

/* One step of a 64-bit mix (splitmix64's finalizer): every bit of the input changes half of the
 * output. */
static uint64_t quota_mix(uint64_t sum, uint64_t value)
{
	sum = (sum ^ value) + 0x9e3779b97f4a7c15u;
	sum = (sum ^ sum >> 30) * 0xbf58476d1ce4e5b9u;
	sum = (sum ^ sum >> 27) * 0x94d049bb133111ebu;
	return sum ^ sum >> 31;
}

int64_t quota_row_sum(const struct quota_row *row)
{
	uint64_t sum = quota_mix(QUOTA_DB_APPLICATION_ID, (uint64_t)row->row_kind);

	sum = quota_mix(sum, (uint64_t)row->key);
	sum = quota_mix(sum, (uint64_t)row->stamp);
	for (int i = 0; i < QUOTA_ROW_VALUES; i++)
		sum = quota_mix(sum, (uint64_t)row->value[i]);
	return (int64_t)(sum & INT64_MAX);
}

bool quota_row_is_sound(const struct quota_row *row, int64_t sum)
{
	int64_t key_end =
		row->row_kind == QUOTA_ROW_GRACE ? QUOTA_KINDS : (int64_t)QUOTA_KINDS << 32;
	int nr_counts =
		row->row_kind == QUOTA_ROW_USAGE ? 2 : QUOTA_ROW_VALUES; /* the others are times */

	if (row->key < 0 || row->key >= key_end)
		return false;
	for (int i = 0; i < nr_counts; i++) {
		if (row->value[i] < 0)
			return false;
	}
	return sum == quota_row_sum(row);
}
