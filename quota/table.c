/* SPDX-License-Identifier: MIT */
/*
 * The ids in memory: a hash in shards, a lock a shard.
 *
 * Every write in the system passes here, so nothing is global: two ids meet only if they fall into
 * the same shard of their kind. A node is one allocation that is never moved or freed before the
 * table, so growing a shard touches nobody else, and there are no more ids than ids have been seen.
 * Charging several ids at once takes all their shards, by ascending address (users lie below
 * groups), so that they can be checked before any is changed.
 */
#include "quota/private.h"

#include <string.h>

#define QUOTA_SHARD_BUCKETS_MIN 8u

/* A bijection (the finalizer of MurmurHash3): ids that are dense, or far apart by a power of two,
 * spread alike. */
static uint32_t quota_hash(uint32_t id)
{
	id ^= id >> 16;
	id *= 0x85ebca6bu;
	id ^= id >> 13;
	id *= 0xc2b2ae35u;
	return id ^ id >> 16;
}

static struct quota_node **quota_shard_bucket(struct quota_node **buckets, uint32_t nr_buckets,
					      uint32_t id)
{
	return &buckets[quota_hash(id) / QUOTA_SHARDS & (nr_buckets - 1)];
}

struct quota_shard *quota_table_shard(struct quota_table *table, enum quota_kind kind, uint32_t id)
{
	return &table->shard[kind][quota_hash(id) % QUOTA_SHARDS];
}

int quota_table_init(struct quota_table *table)
{
	int r = 0;

	memset(table, 0, sizeof(*table));
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS; i++) {
			struct quota_shard *shard = &table->shard[kind][i];
			lock_init(&shard->lock);
			shard->buckets = calloc(QUOTA_SHARD_BUCKETS_MIN, sizeof(*shard->buckets));
			if (shard->buckets)
				shard->nr_buckets = QUOTA_SHARD_BUCKETS_MIN;
			else
				r = -ENOMEM;
		}
	}
	return r;
}

static void quota_shard_fini(struct quota_shard *shard)
{
	for (uint32_t i = 0; i < shard->nr_buckets; i++) {
		for (struct quota_node *node = shard->buckets[i], *next; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	free(shard->buckets);
	lock_fini(&shard->lock);
}

void quota_table_fini(struct quota_table *table)
{
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS; i++)
			quota_shard_fini(&table->shard[kind][i]);
	}
}

struct quota_node *quota_shard_find_locked(struct quota_shard *shard, uint32_t id)
{
	lock_assert_held(&shard->lock);
	shard->lookups++;
	struct quota_node *node = *quota_shard_bucket(shard->buckets, shard->nr_buckets, id);
	for (; node; node = node->next) {
		shard->probes++;
		if (node->id == id)
			return node;
	}
	return NULL;
}

/* Doubles the buckets. For want of memory chains get longer, and nothing else happens. */
static void quota_shard_grow_locked(struct quota_shard *shard)
{
	uint32_t nr_buckets = shard->nr_buckets * 2;

	struct quota_node **buckets = calloc(nr_buckets, sizeof(*buckets));
	if (!buckets)
		return;
	for (uint32_t i = 0; i < shard->nr_buckets; i++) {
		for (struct quota_node *node = shard->buckets[i], *next; node; node = next) {
			struct quota_node **bucket =
				quota_shard_bucket(buckets, nr_buckets, node->id);
			next = node->next;
			node->next = *bucket;
			*bucket = node;
		}
	}
	free(shard->buckets);
	shard->buckets = buckets;
	shard->nr_buckets = nr_buckets;
}

struct quota_node *quota_shard_get_locked(struct quota_shard *shard, enum quota_kind kind,
					  uint32_t id)
{
	struct quota_node *node = quota_shard_find_locked(shard, id);
	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->id = id;
	node->kind = (uint8_t)kind;
	if (shard->nr_nodes >= shard->nr_buckets)
		quota_shard_grow_locked(shard);
	struct quota_node **bucket = quota_shard_bucket(shard->buckets, shard->nr_buckets, id);
	node->next = *bucket;
	*bucket = node;
	shard->nr_nodes++;
	return node;
}

void quota_node_export(const struct quota_node *node, struct quota_entry *ret_entry)
{
	const struct quota_resource *space = &node->resource[QUOTA_SPACE];
	const struct quota_resource *inodes = &node->resource[QUOTA_INODES];

	*ret_entry = (struct quota_entry){
		.id = node->id,
		.limits = {.bytes_soft = space->soft,
			   .bytes_hard = space->hard,
			   .inodes_soft = inodes->soft,
			   .inodes_hard = inodes->hard},
		.usage = {.bytes = space->used, .inodes = inodes->used},
		.bytes_expire = space->expire,
		.inodes_expire = inodes->expire,
	};
}

struct quota_row quota_node_usage_row(const struct quota_node *node)
{
	return (struct quota_row){
		.row_kind = QUOTA_ROW_USAGE,
		.key = quota_row_key((enum quota_kind)node->kind, node->id),
		.value = {node->resource[QUOTA_SPACE].used, node->resource[QUOTA_INODES].used,
			  node->resource[QUOTA_SPACE].expire, node->resource[QUOTA_INODES].expire},
	};
}

uint64_t quota_table_bytes(struct quota_table *table)
{
	/* what malloc of a 64-bit glibc makes of a node: 8 bytes more, rounded up to 16 */
	const uint64_t node_bytes = (sizeof(struct quota_node) + 8 + 15) / 16 * 16;
	uint64_t bytes = 0;

	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS; i++) {
			struct quota_shard *shard = &table->shard[kind][i];
			LOCK_SCOPE(&shard->lock);
			bytes += shard->nr_nodes * node_bytes +
				 shard->nr_buckets * sizeof(*shard->buckets);
		}
	}
	return bytes;
}

void quota_table_count(struct quota_table *table, uint64_t *ret_ids, uint64_t *ret_lookups,
		       uint64_t *ret_probes)
{
	uint64_t ids = 0, lookups = 0, probes = 0;

	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		for (unsigned i = 0; i < QUOTA_SHARDS; i++) {
			struct quota_shard *shard = &table->shard[kind][i];
			LOCK_SCOPE(&shard->lock);
			ids += shard->nr_nodes;
			lookups += shard->lookups;
			probes += shard->probes;
		}
	}
	*ret_ids = ids;
	*ret_lookups = lookups;
	*ret_probes = probes;
}

void quota_lock_set_add(struct quota_lock_set *set, struct quota_shard *shard)
{
	unsigned at = set->nr;

	for (unsigned i = 0; i < set->nr; i++) {
		if (set->shard[i] == shard)
			return;
	}
	for (; at > 0 && set->shard[at - 1] > shard; at--)
		set->shard[at] = set->shard[at - 1];
	set->shard[at] = shard;
	set->nr++;
}

void quota_lock_set_take(struct quota_lock_set *set)
{
	for (unsigned i = 0; i < set->nr; i++)
		lock_take(&set->shard[i]->lock);
}

void quota_lock_set_release(struct quota_lock_set *set)
{
	while (set->nr > 0)
		lock_release(&set->shard[--set->nr]->lock);
}
