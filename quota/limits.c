/* SPDX-License-Identifier: MIT */
/*
 * Limits, grace and switches: what an administrator sets, and what is shown to whoever asks.
 *
 * What is set is durable when the call returns, and in force only if it is durable: first the
 * database, then memory. The shard is not held in between. Usage may change meanwhile, so the timer
 * is worked out twice: once for the row, once for the memory. The next save makes them agree; a
 * crash before it is one second of grace at most.
 */
#include "quota/private.h"

struct quota_terms quota_terms_get(struct quota *quota, enum quota_kind kind,
				   enum quota_resource_kind resource, unsigned flags)
{
	int enforce = atomic_load_explicit(&quota->enforce, memory_order_relaxed);

	return (struct quota_terms){
		.now = quota_now(quota),
		.grace = atomic_load_explicit(&quota->grace[kind][resource], memory_order_relaxed),
		.enforced = enforce != QUOTA_ENFORCE_OFF,
		.exempt = flags & QUOTA_EXEMPT && enforce != QUOTA_ENFORCE_ROOT,
	};
}

/* Puts @limits on a node, timers included. */
static void quota_node_limit(struct quota *quota, struct quota_node *node,
			     const struct quota_limits *limits)
{
	struct quota_terms space =
		quota_terms_get(quota, (enum quota_kind)node->kind, QUOTA_SPACE, 0);
	struct quota_terms inodes =
		quota_terms_get(quota, (enum quota_kind)node->kind, QUOTA_INODES, 0);

	quota_resource_limit(&node->resource[QUOTA_SPACE], limits->bytes_soft, limits->bytes_hard,
			     &space);
	quota_resource_limit(&node->resource[QUOTA_INODES], limits->inodes_soft,
			     limits->inodes_hard, &inodes);
}

/* What the node would be with @limits; makes it, so that nothing can fail once the database has
 * them. */
static int quota_limit_rows(struct quota *quota, enum quota_kind kind, uint32_t id,
			    const struct quota_limits *limits, struct quota_row *ret_limits,
			    struct quota_row *ret_usage)
{
	struct quota_shard *shard = quota_table_shard(&quota->table, kind, id);
	struct quota_node copy;

	{
		LOCK_SCOPE(&shard->lock);
		struct quota_node *node = quota_shard_get_locked(shard, kind, id);
		if (!node)
			return -ENOMEM;
		copy = *node;
	}
	quota_node_limit(quota, &copy, limits);
	*ret_limits = (struct quota_row){
		.row_kind = QUOTA_ROW_LIMITS,
		.key = quota_row_key(kind, id),
		.value = {(int64_t)limits->bytes_soft, (int64_t)limits->bytes_hard,
			  (int64_t)limits->inodes_soft, (int64_t)limits->inodes_hard},
	};
	*ret_usage = quota_node_usage_row(&copy);
	return 0;
}

static int quota_put_locked(struct quota_store *store, struct quota_row *rows, size_t nr_rows)
{
	int r = quota_store_begin_locked(store);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < nr_rows; i++)
		r = quota_store_put_locked(store, &rows[i]);
	return quota_store_end_locked(store, r);
}

static void quota_apply_limits(struct quota *quota, enum quota_kind kind, uint32_t id,
			       const struct quota_limits *limits)
{
	struct quota_shard *shard = quota_table_shard(&quota->table, kind, id);

	LOCK_SCOPE(&shard->lock);
	struct quota_node *node = quota_shard_find_locked(shard, id);
	quota_node_limit(quota, node, limits);
	node->unsaved = true;
}

int quota_set_limits(struct quota *quota, enum quota_kind kind, uint32_t id,
		     const struct quota_limits *limits)
{
	struct quota_row rows[2];

	if ((limits->bytes_soft | limits->bytes_hard | limits->inodes_soft | limits->inodes_hard) >
	    (uint64_t)INT64_MAX)
		return -ERANGE;
	/* the lock also keeps two setters of one id in the order of the database */
	_cleanup_(lock_guard_release) struct lock *guard = NULL;
	if (quota->store)
		guard = lock_guard_take(&quota->store->lock);
	int r = quota_limit_rows(quota, kind, id, limits, &rows[0], &rows[1]);
	if (r == 0 && quota->store)
		r = quota_put_locked(quota->store, rows, 2);
	if (r == 0)
		quota_apply_limits(quota, kind, id, limits);
	return r;
}

int quota_set_grace(struct quota *quota, enum quota_kind kind, const struct quota_grace *grace)
{
	struct quota_row row = {
		.row_kind = QUOTA_ROW_GRACE,
		.key = kind,
		.value = {(int64_t)grace->bytes_seconds, (int64_t)grace->inodes_seconds},
	};

	if ((grace->bytes_seconds | grace->inodes_seconds) > (uint64_t)INT64_MAX)
		return -ERANGE;
	_cleanup_(lock_guard_release) struct lock *guard = NULL;
	if (quota->store)
		guard = lock_guard_take(&quota->store->lock);
	int r = quota->store ? quota_put_locked(quota->store, &row, 1) : 0;
	if (r < 0)
		return r;
	atomic_store(&quota->grace[kind][QUOTA_SPACE], grace->bytes_seconds);
	atomic_store(&quota->grace[kind][QUOTA_INODES], grace->inodes_seconds);
	return 0;
}

void quota_get_grace(struct quota *quota, enum quota_kind kind, struct quota_grace *ret_grace)
{
	ret_grace->bytes_seconds = atomic_load(&quota->grace[kind][QUOTA_SPACE]);
	ret_grace->inodes_seconds = atomic_load(&quota->grace[kind][QUOTA_INODES]);
}

int quota_get(struct quota *quota, enum quota_kind kind, uint32_t id, struct quota_entry *ret_entry)
{
	struct quota_shard *shard = quota_table_shard(&quota->table, kind, id);

	LOCK_SCOPE(&shard->lock);
	struct quota_node *node = quota_shard_find_locked(shard, id);
	if (node && quota_node_is_used(node)) {
		quota_node_export(node, ret_entry);
		return 1;
	}
	*ret_entry = (struct quota_entry){.id = id};
	return 0;
}

/* Appends what @shard has to an array that grows. */
static int quota_list_shard(struct quota_shard *shard, struct quota_entry **entries, size_t *nr,
			    size_t *room)
{
	struct quota_node *node;

	LOCK_SCOPE(&shard->lock);
	if (*nr + shard->nr_nodes > *room) {
		size_t new_room = (*nr + shard->nr_nodes) * 2;
		struct quota_entry *grown = reallocarray(*entries, new_room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		*entries = grown;
		*room = new_room;
	}
	quota_shard_for_each(node, shard)
	{
		if (quota_node_is_used(node))
			quota_node_export(node, &(*entries)[(*nr)++]);
	}
	return 0;
}

static int quota_entry_compare(const void *a, const void *b)
{
	const struct quota_entry *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

int quota_list(struct quota *quota, enum quota_kind kind, struct quota_entry **ret_entries,
	       size_t *ret_count)
{
	_cleanup_free_ struct quota_entry *entries = NULL;
	size_t nr = 0, room = 0;

	for (unsigned i = 0; i < QUOTA_SHARDS; i++) {
		int r = quota_list_shard(&quota->table.shard[kind][i], &entries, &nr, &room);
		if (r < 0)
			return r;
	}
	if (nr > 1)
		qsort(entries, nr, sizeof(*entries), quota_entry_compare);
	*ret_entries = take_ptr(entries);
	*ret_count = nr;
	return 0;
}

void quota_set_enforce(struct quota *quota, enum quota_enforce enforce)
{
	atomic_store(&quota->enforce, enforce);
}

void quota_set_clock_offset(struct quota *quota, int64_t seconds)
{
	atomic_store(&quota->clock_offset, seconds);
}

int64_t quota_now(struct quota *quota)
{
	int64_t offset = atomic_load_explicit(&quota->clock_offset, memory_order_relaxed);
	int64_t now;

	if (__builtin_add_overflow((int64_t)clock_wall().tv_sec, offset, &now))
		return INT64_MAX;
	return now;
}

void quota_get_stats(struct quota *quota, struct quota_stats *ret_stats)
{
	uint64_t lookups, probes;

	*ret_stats = (struct quota_stats){
		.refused_blocks = atomic_load(&quota->refused_blocks),
		.refused_inodes = atomic_load(&quota->refused_inodes),
		.refused_grace = atomic_load(&quota->refused_grace),
	};
	quota_table_count(&quota->table, &ret_stats->ids, &lookups, &probes);
}

void quota_reset_stats(struct quota *quota)
{
	atomic_store(&quota->refused_blocks, 0);
	atomic_store(&quota->refused_inodes, 0);
	atomic_store(&quota->refused_grace, 0);
}
