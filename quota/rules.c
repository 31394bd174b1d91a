/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of limits and grace, for one resource (space or inodes) of one id.
 *
 * Users compare us with a kernel, so every rule is one of Linux' fs/quota/dquot.c, whose functions
 * are named here:
 *
 *                     used + amount > soft, enforced
 *                     (dquot_add_space): expire = now + grace
 *      +----------+ --------------------------------------------> +-----------------------+
 *      | no timer |                                               | running, until expire |
 *      +----------+ <-------------------------------------------- +-----------------------+
 *            ^        used <= soft (dquot_decr_space,                 |               ^
 *            |        do_set_dqblk, settle)                           | now >=        | limits set
 *            |                                                        | expire        | again, still
 *            |                                                        v               | over
 *            |        as above                                    +-----------------------+
 *            +--------------------------------------------------- | expired: refused      |
 *                                                                 | above soft            |
 *                                                                 +-----------------------+
 *
 * Expired is the same number, read later. Settling a recount keeps both as they are while usage is
 * over the soft limit. Exempt callers (CAP_SYS_RESOURCE) are never refused, but start timers. Where
 * limits are not enforced no timer starts, but taking away still clears one. Nothing here locks,
 * looks at a clock or knows who asks.
 */
#include "quota/private.h"

/* The end of a grace period that begins now; never 0, which means "no timer". */
static int64_t quota_expiry(const struct quota_terms *terms)
{
	int64_t grace = terms->grace > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)terms->grace;
	int64_t expire;

	if (__builtin_add_overflow(terms->now, grace, &expire))
		return INT64_MAX;
	return expire == 0 ? 1 : expire;
}

static bool quota_resource_is_over(const struct quota_resource *resource)
{
	return resource->soft && (uint64_t)resource->used > resource->soft;
}

/* Grace is over from the second of its end on. */
static bool quota_resource_is_late(const struct quota_resource *resource,
				   const struct quota_terms *terms)
{
	return resource->soft && resource->expire && terms->now >= resource->expire;
}

static bool quota_terms_refuse(const struct quota_terms *terms)
{
	return terms->enforced && !terms->exempt;
}

enum quota_refusal quota_resource_check(const struct quota_resource *resource, uint64_t amount,
					const struct quota_terms *terms)
{
	uint64_t total;

	if (__builtin_add_overflow((uint64_t)resource->used, amount, &total) || total > INT64_MAX)
		return QUOTA_REFUSED_RANGE;
	if (!quota_terms_refuse(terms))
		return QUOTA_FITS;
	if (resource->hard && total > resource->hard)
		return QUOTA_REFUSED_HARD;
	if (quota_resource_is_late(resource, terms) && total > resource->soft)
		return QUOTA_REFUSED_GRACE;
	return QUOTA_FITS;
}

uint64_t quota_resource_room(const struct quota_resource *resource, const struct quota_terms *terms)
{
	uint64_t limit = INT64_MAX;

	if (quota_terms_refuse(terms)) {
		if (resource->hard && resource->hard < limit)
			limit = resource->hard;
		if (quota_resource_is_late(resource, terms) && resource->soft < limit)
			limit = resource->soft;
	}
	return limit > (uint64_t)resource->used ? limit - (uint64_t)resource->used : 0;
}

void quota_resource_add(struct quota_resource *resource, uint64_t amount,
			const struct quota_terms *terms)
{
	resource->used += (int64_t)amount;
	if (terms->enforced && quota_resource_is_over(resource) && !resource->expire)
		resource->expire = quota_expiry(terms);
}

uint64_t quota_resource_sub(struct quota_resource *resource, uint64_t amount)
{
	uint64_t excess = amount > (uint64_t)resource->used ? amount - (uint64_t)resource->used : 0;

	resource->used -= (int64_t)(amount - excess);
	if ((uint64_t)resource->used <= resource->soft)
		resource->expire = 0;
	return excess;
}

void quota_resource_limit(struct quota_resource *resource, uint64_t soft, uint64_t hard,
			  const struct quota_terms *terms)
{
	resource->soft = soft;
	resource->hard = hard;
	resource->expire = quota_resource_is_over(resource) ? quota_expiry(terms) : 0;
}

void quota_resource_settle(struct quota_resource *resource, const struct quota_terms *terms)
{
	if (!quota_resource_is_over(resource))
		resource->expire = 0;
	else if (!resource->expire && terms->enforced)
		resource->expire = quota_expiry(terms);
}
