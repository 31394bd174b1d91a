/* SPDX-License-Identifier: MIT */
/*
 * Usage that is found by counting and not by charging: after a crash, and for quotacheck.
 *
 * A recount is clear, add..., settle. Limits do not refuse what already exists. Timers are not
 * touched until all has been counted, or an id that has been over its soft limit for days would get
 * its grace again with every crash: settle keeps the timer of who is still over, clears the timer
 * of who is not, and starts one for who is newly over.
 */
#include "quota/private.h"

static void quota_node_settle_locked(struct quota *quota, struct quota_node *node)
{
	for (int i = 0; i < QUOTA_RESOURCES; i++) {
		struct quota_terms terms = quota_terms_get(quota, (enum quota_kind)node->kind,
							   (enum quota_resource_kind)i, 0);
		quota_resource_settle(&node->resource[i], &terms);
	}
	node->unsaved = true;
}

static void quota_node_clear_locked(struct quota *quota, struct quota_node *node)
{
	(void)quota;
	node->resource[QUOTA_SPACE].used = node->resource[QUOTA_INODES].used = 0;
	node->unsaved = true;
}

static void quota_for_each_node(struct quota *quota,
				void (*visit)(struct quota *quota, struct quota_node *node))
{
	struct quota_node *node;

	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS; i++) {
			struct quota_shard *shard = &quota->table.shard[kind][i];
			LOCK_SCOPE(&shard->lock);
			quota_shard_for_each(node, shard) visit(quota, node);
		}
	}
}

void quota_usage_clear(struct quota *quota)
{
	atomic_store(&quota->uncounted, true);
	quota_for_each_node(quota, quota_node_clear_locked);
}

void quota_usage_settle(struct quota *quota)
{
	quota_for_each_node(quota, quota_node_settle_locked);
	atomic_store(&quota->uncounted, false);
}

/* Adds up to the most that can be counted. */
static void quota_resource_count(struct quota_resource *resource, uint64_t amount)
{
	if (amount > (uint64_t)(INT64_MAX - resource->used))
		amount = (uint64_t)(INT64_MAX - resource->used);
	resource->used += (int64_t)amount;
}

void quota_usage_add(struct quota *quota, const struct quota_owner *owner, uint64_t bytes,
		     uint64_t inodes)
{
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		struct quota_shard *shard =
			quota_table_shard(&quota->table, (enum quota_kind)kind, owner->id[kind]);
		LOCK_SCOPE(&shard->lock);
		struct quota_node *node =
			quota_shard_get_locked(shard, (enum quota_kind)kind, owner->id[kind]);
		if (!node) {
			/* the next mount counts again */
			atomic_store(&quota->miscounted, true);
			continue;
		}
		quota_resource_count(&node->resource[QUOTA_SPACE], bytes);
		quota_resource_count(&node->resource[QUOTA_INODES], inodes);
		node->unsaved = true;
	}
}

void quota_usage_set(struct quota *quota, enum quota_kind kind, uint32_t id,
		     const struct quota_usage *usage)
{
	struct quota_shard *shard = quota_table_shard(&quota->table, kind, id);

	assert(usage->bytes >= 0 && usage->inodes >= 0);
	LOCK_SCOPE(&shard->lock);
	struct quota_node *node = quota_shard_get_locked(shard, kind, id);
	if (!node) {
		atomic_store(&quota->miscounted, true);
		return;
	}
	node->resource[QUOTA_SPACE].used = usage->bytes;
	node->resource[QUOTA_INODES].used = usage->inodes;
	quota_node_settle_locked(quota, node);
}
