/* SPDX-License-Identifier: MIT */
/*
 * The quota as a whole: opening and closing, limits, and what is shown.
 *
 * File map: rules.c the arithmetic; table.c ids in memory; charge.c and recount.c change usage;
 * limits.c what is set and shown; store.c, check.c and row.c the database; page.c and salvage.c
 * what is done when it is damaged.
 *
 * The database holds the truth about limits and grace: they are written there first, and in memory
 * only when that has succeeded. Memory holds the truth about usage: the database has it only if its
 * last user closed it cleanly.
 */
#include "quota/private.h"

#include <string.h>

static void quota_free(struct quota *quota)
{
	quota_table_fini(&quota->table);
	quota_store_free(quota->store);
	free(quota);
}

static void quota_cleanup(struct quota **quota)
{
	if (*quota)
		quota_free(*quota);
}

int quota_new_volatile(struct quota **ret_quota)
{
	_cleanup_(quota_cleanup) struct quota *quota = NULL;

	quota = aligned_alloc(_Alignof(struct quota), sizeof(*quota));
	if (!quota)
		return -ENOMEM;
	memset(quota, 0, sizeof(*quota));
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (int i = 0; i < QUOTA_RESOURCES; i++)
			atomic_init(&quota->grace[kind][i], QUOTA_GRACE_DEFAULT_S);
	}
	atomic_init(&quota->enforce, QUOTA_ENFORCE_ON);
	int r = quota_table_init(&quota->table);
	if (r < 0)
		return r;
	*ret_quota = take_ptr(quota);
	return 0;
}

/* Takes one row of the database into memory: a quota_row_visit. */
static int quota_load_row(void *context, const struct quota_row *row)
{
	struct quota *quota = context;
	enum quota_kind kind =
		(enum quota_kind)(row->row_kind == QUOTA_ROW_GRACE ? row->key : row->key >> 32);

	if (row->row_kind == QUOTA_ROW_GRACE) {
		atomic_store(&quota->grace[kind][QUOTA_SPACE], (uint64_t)row->value[0]);
		atomic_store(&quota->grace[kind][QUOTA_INODES], (uint64_t)row->value[1]);
		return 0;
	}
	uint32_t id = (uint32_t)row->key;
	struct quota_shard *shard = quota_table_shard(&quota->table, kind, id);
	LOCK_SCOPE(&shard->lock);
	struct quota_node *node = quota_shard_get_locked(shard, kind, id);
	if (!node)
		return -ENOMEM;
	struct quota_resource *space = &node->resource[QUOTA_SPACE];
	struct quota_resource *inodes = &node->resource[QUOTA_INODES];
	if (row->row_kind == QUOTA_ROW_LIMITS) {
		space->soft = (uint64_t)row->value[0];
		space->hard = (uint64_t)row->value[1];
		inodes->soft = (uint64_t)row->value[2];
		inodes->hard = (uint64_t)row->value[3];
	} else {
		space->used = row->value[0];
		inodes->used = row->value[1];
		space->expire = row->value[2];
		inodes->expire = row->value[3];
	}
	return 0;
}

static int quota_mark_in_use(struct quota_store *store)
{
	LOCK_SCOPE(&store->lock);
	int r = quota_store_begin_locked(store);
	if (r < 0)
		return r;
	return quota_store_end_locked(store, quota_store_mark_locked(store, false));
}

int quota_open(const char *path, struct quota **ret_quota, bool *ret_clean, char **ret_why)
{
	_cleanup_(quota_cleanup) struct quota *quota = NULL;
	_cleanup_free_ char *why = NULL;
	bool clean = false;

	int r = quota_new_volatile(&quota);
	if (r < 0)
		return r;
	r = quota_store_open(path, quota_load_row, quota, &clean, &quota->store, &why);
	if (r == -EUCLEAN && ret_why)
		*ret_why = take_ptr(why);
	if (r < 0)
		return r;
	r = quota_mark_in_use(quota->store);
	if (r < 0)
		return r;
	if (!clean)
		quota_usage_clear(quota);
	*ret_clean = clean;
	*ret_quota = take_ptr(quota);
	return 0;
}

/* Copies what is unsaved in @shard, and calls it saved. */
static int quota_collect_unsaved(struct quota_shard *shard, struct quota_row **ret_rows,
				 size_t *ret_nr)
{
	struct quota_node *node;
	size_t nr = 0;

	LOCK_SCOPE(&shard->lock);
	quota_shard_for_each(node, shard) nr += node->unsaved;
	struct quota_row *rows = calloc(nr ? nr : 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	nr = 0;
	quota_shard_for_each(node, shard)
	{
		if (node->unsaved)
			rows[nr++] = quota_node_usage_row(node);
		node->unsaved = false;
	}
	*ret_rows = rows;
	*ret_nr = nr;
	return 0;
}

static int quota_save_shard_locked(struct quota *quota, struct quota_shard *shard)
{
	_cleanup_free_ struct quota_row *rows = NULL;
	size_t nr = 0;

	int r = quota_collect_unsaved(shard, &rows, &nr);
	for (size_t i = 0; r == 0 && i < nr; i++)
		r = quota_store_put_locked(quota->store, &rows[i]);
	return r;
}

/* A failed save has saved nothing: everything is unsaved again. */
static void quota_mark_unsaved(struct quota *quota)
{
	struct quota_node *node;

	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS; i++) {
			struct quota_shard *shard = &quota->table.shard[kind][i];
			LOCK_SCOPE(&shard->lock);
			quota_shard_for_each(node, shard) node->unsaved = true;
		}
	}
}

/* One transaction: usage and timers, and at a close the mark. */
static int quota_save_and_mark(struct quota *quota, bool clean)
{
	if (!quota->store)
		return 0;
	LOCK_SCOPE(&quota->store->lock);
	int r = quota_store_begin_locked(quota->store);
	if (r < 0)
		return r;
	for (int kind = 0; kind < QUOTA_KINDS && r == 0; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS && r == 0; i++)
			r = quota_save_shard_locked(quota, &quota->table.shard[kind][i]);
	}
	if (r == 0)
		r = quota_store_mark_locked(quota->store, clean);
	r = quota_store_end_locked(quota->store, r);
	if (r < 0)
		quota_mark_unsaved(quota);
	return r;
}

int quota_save(struct quota *quota)
{
	return quota_save_and_mark(quota, false);
}

int quota_close(struct quota *quota)
{
	bool clean = !atomic_load(&quota->uncounted) && !atomic_load(&quota->miscounted);
	int r = quota_save_and_mark(quota, clean);
	quota_free(quota);
	return r;
}

void quota_abandon(struct quota *quota)
{
	if (quota)
		quota_free(quota);
}
