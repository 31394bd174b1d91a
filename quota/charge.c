/* SPDX-License-Identifier: MIT */
/*
 * Charging, giving back and moving: what happens to all the ids of a file at once.
 *
 * A file charges a user and a group, and a charge is made to both or to neither. Linux adds to one
 * and backs out when the next refuses; we hold the shards of all of them, check all, then add to
 * all, so that nobody ever sees a charge that was not made, and a refusal leaves no trace but a
 * counter. Space and inodes asked for together are one charge.
 *
 * Space is looked at only if space is asked for, and inodes likewise, as in dquot_alloc_space() and
 * dquot_alloc_inode(). A transfer looks at both whatever the amounts, as __dquot_transfer() does:
 * an empty file cannot be given to somebody who is beyond a limit.
 */
#include "quota/private.h"

#include <string.h>

#include "base/log.h"
#include "base/sizes.h"

/* One id in a charge. */
struct quota_party {
	struct quota_node *node;
	struct quota_terms terms[QUOTA_RESOURCES];
};

/* A timer runs only above a soft limit, except between the start of a recount and its settling. */
static void quota_node_assert(struct quota *quota, const struct quota_node *node)
{
#ifdef CHOKEFS_INVARIANTS
	for (int i = 0; i < QUOTA_RESOURCES; i++) {
		const struct quota_resource *resource = &node->resource[i];
		assert(resource->used >= 0);
		assert(!resource->expire || atomic_load(&quota->uncounted) ||
		       (resource->soft && (uint64_t)resource->used > resource->soft));
	}
#else
	(void)quota;
	(void)node;
#endif
}

static int quota_party_init_locked(struct quota *quota, struct quota_party *party,
				   enum quota_kind kind, uint32_t id, unsigned flags)
{
	party->node = quota_shard_get_locked(quota_table_shard(&quota->table, kind, id), kind, id);
	if (!party->node)
		return -ENOMEM;
	for (int i = 0; i < QUOTA_RESOURCES; i++)
		party->terms[i] = quota_terms_get(quota, kind, (enum quota_resource_kind)i, flags);
	return 0;
}

static enum quota_refusal quota_party_check(const struct quota_party *party,
					    enum quota_resource_kind which, uint64_t amount)
{
	return quota_resource_check(&party->node->resource[which], amount, &party->terms[which]);
}

static void quota_party_add(struct quota *quota, struct quota_party *party, uint64_t bytes,
			    uint64_t inodes)
{
	party->node->unsaved = true;
	if (bytes)
		quota_resource_add(&party->node->resource[QUOTA_SPACE], bytes,
				   &party->terms[QUOTA_SPACE]);
	if (inodes)
		quota_resource_add(&party->node->resource[QUOTA_INODES], inodes,
				   &party->terms[QUOTA_INODES]);
	quota_node_assert(quota, party->node);
}

/* Turns a refusal into what the caller is told, and counts it: once as blocks or inodes, and once
 * more if grace was why. */
static int quota_refuse(struct quota *quota, enum quota_refusal refusal,
			enum quota_resource_kind which)
{
	if (refusal == QUOTA_REFUSED_RANGE)
		return -EOVERFLOW;
	atomic_fetch_add(which == QUOTA_SPACE ? &quota->refused_blocks : &quota->refused_inodes, 1);
	if (refusal == QUOTA_REFUSED_GRACE)
		atomic_fetch_add(&quota->refused_grace, 1);
	return QUOTA_OVER_LIMIT;
}

/* The whole units of @bytes that every party has room for; @bytes itself if it fits. */
static uint64_t quota_fit(const struct quota_party *party, unsigned nr, uint64_t bytes,
			  uint64_t unit)
{
	uint64_t room = UINT64_MAX;

	for (unsigned i = 0; i < nr; i++)
		room = min_u64(room, quota_resource_room(&party[i].node->resource[QUOTA_SPACE],
							 &party[i].terms[QUOTA_SPACE]));
	return room >= bytes ? bytes : room / unit * unit;
}

int quota_charge(struct quota *quota, const struct quota_owner *owner, uint64_t bytes,
		 uint64_t inodes, uint64_t unit, unsigned flags, struct quota_charge *ret_charge)
{
	struct quota_party party[QUOTA_KINDS];
	enum quota_refusal refusal;
	int r;

	assert(!(flags & QUOTA_PARTIAL) || unit > 0);
	if (!bytes && !inodes) {
		*ret_charge = (struct quota_charge){0};
		return 0;
	}
	_cleanup_(quota_lock_set_release) struct quota_lock_set set = {0};
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		quota_lock_set_add(&set, quota_table_shard(&quota->table, (enum quota_kind)kind,
							   owner->id[kind]));
	quota_lock_set_take(&set);
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		r = quota_party_init_locked(quota, &party[kind], (enum quota_kind)kind,
					    owner->id[kind], flags);
		if (r < 0)
			return r;
	}
	if (bytes && flags & QUOTA_PARTIAL) {
		uint64_t fit = quota_fit(party, QUOTA_KINDS, bytes, unit);
		/* of nothing that fits one unit is asked for, to be refused below with its reason
		 */
		bytes = fit ? fit : min_u64(bytes, unit);
	}
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		refusal = bytes ? quota_party_check(&party[kind], QUOTA_SPACE, bytes) : QUOTA_FITS;
		if (refusal != QUOTA_FITS)
			return quota_refuse(quota, refusal, QUOTA_SPACE);
		refusal =
			inodes ? quota_party_check(&party[kind], QUOTA_INODES, inodes) : QUOTA_FITS;
		if (refusal != QUOTA_FITS)
			return quota_refuse(quota, refusal, QUOTA_INODES);
	}
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		quota_party_add(quota, &party[kind], bytes, inodes);
	*ret_charge = (struct quota_charge){
		.quota = quota, .owner = *owner, .bytes = bytes, .inodes = inodes};
	return 0;
}

void quota_charge_take(struct quota_charge *charge)
{
	*charge = (struct quota_charge){0};
}

void quota_charge_release(struct quota_charge *charge)
{
	if (charge->quota)
		quota_refund(charge->quota, &charge->owner, charge->bytes, charge->inodes);
	*charge = (struct quota_charge){0};
}

/* Takes from a node. False if it had not so much, which is a bug of ours. */
static bool quota_node_sub_locked(struct quota *quota, struct quota_node *node, uint64_t bytes,
				  uint64_t inodes)
{
	uint64_t excess = 0;

	node->unsaved = true;
	if (bytes)
		excess |= quota_resource_sub(&node->resource[QUOTA_SPACE], bytes);
	if (inodes)
		excess |= quota_resource_sub(&node->resource[QUOTA_INODES], inodes);
	quota_node_assert(quota, node);
	return excess == 0;
}

/* Usage would be negative: never shown to anybody, said once, and fatal where invariants are
 * checked. */
static void quota_excess(struct quota *quota, enum quota_kind kind, uint32_t id, uint64_t bytes,
			 uint64_t inodes)
{
	if (log_once(&quota->said_excess))
		log_error("quota: %s %u was given back %llu bytes and %llu inodes, more than it "
			  "holds",
			  kind == QUOTA_USER ? "user" : "group", id, (unsigned long long)bytes,
			  (unsigned long long)inodes);
#ifdef CHOKEFS_INVARIANTS
	assert(false && "quota given back beyond usage");
#endif
}

static void quota_refund_kind(struct quota *quota, enum quota_kind kind, uint32_t id,
			      uint64_t bytes, uint64_t inodes)
{
	struct quota_shard *shard = quota_table_shard(&quota->table, kind, id);
	bool sound;

	{
		LOCK_SCOPE(&shard->lock);
		struct quota_node *node = quota_shard_find_locked(shard, id);
		sound = node && quota_node_sub_locked(quota, node, bytes, inodes);
	}
	if (!sound)
		quota_excess(quota, kind, id, bytes, inodes);
}

void quota_refund(struct quota *quota, const struct quota_owner *owner, uint64_t bytes,
		  uint64_t inodes)
{
	if (!bytes && !inodes)
		return;
	for (int kind = 0; kind < QUOTA_KINDS; kind++)
		quota_refund_kind(quota, (enum quota_kind)kind, owner->id[kind], bytes, inodes);
}

/* Checks and charges the new ids; the old ones still hold it all. */
static int quota_transfer_in(struct quota *quota, const struct quota_owner *from,
			     const struct quota_owner *to, uint64_t bytes, uint64_t inodes,
			     unsigned flags)
{
	const uint64_t amount[QUOTA_RESOURCES] = {[QUOTA_SPACE] = bytes, [QUOTA_INODES] = inodes};
	/* in this order Linux asks, and so the counters count */
	static const enum quota_resource_kind order[] = {QUOTA_INODES, QUOTA_SPACE};
	struct quota_party party[QUOTA_KINDS];
	unsigned nr = 0;

	_cleanup_(quota_lock_set_release) struct quota_lock_set set = {0};
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		if (from->id[kind] != to->id[kind])
			quota_lock_set_add(&set,
					   quota_table_shard(&quota->table, (enum quota_kind)kind,
							     to->id[kind]));
	}
	quota_lock_set_take(&set);
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		if (from->id[kind] == to->id[kind])
			continue;
		int r = quota_party_init_locked(quota, &party[nr], (enum quota_kind)kind,
						to->id[kind], flags);
		if (r < 0)
			return r;
		nr++;
	}
	for (unsigned i = 0; i < nr; i++) {
		for (unsigned j = 0; j < QUOTA_RESOURCES; j++) {
			enum quota_refusal refusal =
				quota_party_check(&party[i], order[j], amount[order[j]]);
			if (refusal != QUOTA_FITS)
				return quota_refuse(quota, refusal, order[j]);
		}
	}
	for (unsigned i = 0; i < nr; i++)
		quota_party_add(quota, &party[i], bytes, inodes);
	return 0;
}

int quota_transfer(struct quota *quota, const struct quota_owner *from,
		   const struct quota_owner *to, uint64_t bytes, uint64_t inodes, unsigned flags)
{
	int r = quota_transfer_in(quota, from, to, bytes, inodes, flags);
	if (r != 0 || (!bytes && !inodes))
		return r;
	/* for a moment both are charged, as in Linux: a limit can seem nearer than it is, never
	 * farther */
	for (int kind = 0; kind < QUOTA_KINDS; kind++) {
		if (from->id[kind] != to->id[kind])
			quota_refund_kind(quota, (enum quota_kind)kind, from->id[kind], bytes,
					  inodes);
	}
	return 0;
}
