/* SPDX-License-Identifier: MIT */
/*
 * Who may store how much: limits, usage and grace, per user id and per group id.
 *
 * Knows no page and no inode. The arithmetic is that of Linux' fs/quota/dquot.c: usage above the
 * hard limit is refused; above the soft limit it is allowed until the grace period, counted from the
 * first crossing, has run out; dropping to the soft limit or below clears the timer; all kinds are checked before
 * any is charged; giving back never fails. All amounts of space are bytes, charged by the caller in
 * whole blocks. Every function may be called from any thread.
 */
#ifndef QUOTA_QUOTA_H
#define QUOTA_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quota;

enum quota_kind {
	QUOTA_USER,
	QUOTA_GROUP,
	QUOTA_KINDS,
};

/** Verdicts: positive answers that are no errors. */
enum quota_verdict {
	QUOTA_OVER_LIMIT = 1,
};

enum quota_enforce {
	QUOTA_ENFORCE_OFF,  /* counted, never refused */
	QUOTA_ENFORCE_ON,   /* root (QUOTA_EXEMPT) is counted, not refused */
	QUOTA_ENFORCE_ROOT, /* root is refused too */
};

enum quota_charge_flags {
	QUOTA_EXEMPT = 1 << 0,  /* the caller is privileged: see quota_enforce */
	QUOTA_PARTIAL = 1 << 1, /* take as many whole units as fit, at least one */
};

/** Whom a file charges. */
struct quota_owner {
	uint32_t id[QUOTA_KINDS];
};

/** 0 means no limit, as in setquota(8). */
struct quota_limits {
	uint64_t bytes_soft, bytes_hard;
	uint64_t inodes_soft, inodes_hard;
};

struct quota_usage {
	int64_t bytes;
	int64_t inodes;
};

struct quota_grace {
	uint64_t bytes_seconds;
	uint64_t inodes_seconds;
};

/** One id as repquota(8) shows it. The expiries are calendar seconds (clock_offset is in them); 0: no timer. */
struct quota_entry {
	uint32_t id;
	struct quota_limits limits;
	struct quota_usage usage;
	int64_t bytes_expire, inodes_expire;
};

struct quota_stats {
	uint64_t refused_blocks;
	uint64_t refused_inodes;
	uint64_t refused_grace;
	uint64_t ids;
};

/** What was charged and not yet taken; gives itself back at the end of its scope. */
struct quota_charge {
	struct quota *quota; /* NULL: nothing to give back */
	struct quota_owner owner;
	uint64_t bytes;
	uint64_t inodes;
};

/** Opens the database at @path, or makes it. Everything is loaded into memory. *@ret_clean: the saved usage is
 *  that of a clean close; otherwise usage is zero and must be recounted by quota_usage_add().
 *  -EUCLEAN when the file is not a sound database of ours (*@ret_why then says what was found, a static or
 *  strdup'ed text that the caller frees), else -errno. Never resets a database it cannot read. */
int quota_open(const char *path, struct quota **ret_quota, bool *ret_clean, char **ret_why);

/** Salvages what limits can be read from the damaged database at @path into a new one, keeping the
 *  old file beside it as PATH.damaged-N. *@ret_kept: limits kept. Usage is marked for a recount. 0 or -errno. */
int quota_salvage(const char *path, uint64_t *ret_kept);

/** A quota that lasts only as long as the process: for tests. */
int quota_new_volatile(struct quota **ret_quota);

/** Saves usage and timers; the database stays marked as in use. 0 or -errno. */
int quota_save(struct quota *quota);

/** Saves everything and marks the database clean, then frees @quota even when saving failed. 0 or -errno. */
int quota_close(struct quota *quota);

/** Frees without saving: for processes that only looked, and for tests of crashes. */
void quota_abandon(struct quota *quota);

/** Charges @bytes and @inodes to all ids of @owner, or to none. With QUOTA_PARTIAL, as many whole multiples of
 *  @unit bytes as fit (inodes are never partial): see ret_charge->bytes. 0, QUOTA_OVER_LIMIT, -errno. */
int quota_charge(struct quota *quota, const struct quota_owner *owner, uint64_t bytes, uint64_t inodes,
		 uint64_t unit, unsigned flags, struct quota_charge *ret_charge);

/** Keeps the charge for good; it no longer gives itself back. */
void quota_charge_take(struct quota_charge *charge);

/** Gives back what is left in @charge; harmless when nothing is. Meant for _cleanup_(). */
void quota_charge_release(struct quota_charge *charge);

/** Gives back space and inodes that a file no longer holds. Clears timers as they are due. */
void quota_refund(struct quota *quota, const struct quota_owner *owner, uint64_t bytes, uint64_t inodes);

/** Moves a charge as chown(2) does: ids that stay the same are untouched. 0 or QUOTA_OVER_LIMIT, and then
 *  nothing has moved; -errno. */
int quota_transfer(struct quota *quota, const struct quota_owner *from, const struct quota_owner *to,
		   uint64_t bytes, uint64_t inodes, unsigned flags);

/** 1 if an entry for @id exists, else 0 with an all-zero *@ret_entry that carries @id. */
int quota_get(struct quota *quota, enum quota_kind kind, uint32_t id, struct quota_entry *ret_entry);

/** Durable in the database when it returns. Lowering below usage is allowed. 0 or -errno. */
int quota_set_limits(struct quota *quota, enum quota_kind kind, uint32_t id,
		     const struct quota_limits *limits);

/** All ids of @kind with usage or limits, by ascending id. The caller frees *@ret_entries. 0 or -errno. */
int quota_list(struct quota *quota, enum quota_kind kind, struct quota_entry **ret_entries,
	       size_t *ret_count);

void quota_get_grace(struct quota *quota, enum quota_kind kind, struct quota_grace *ret_grace);

/** Durable when it returns. 0 or -errno. */
int quota_set_grace(struct quota *quota, enum quota_kind kind, const struct quota_grace *grace);

/** Forgets all usage, not limits: before a recount. Timers are kept until usage is known: see quota_usage_settle(). */
void quota_usage_clear(struct quota *quota);

/** Counts a file in, whatever the limits: a recount. */
void quota_usage_add(struct quota *quota, const struct quota_owner *owner, uint64_t bytes, uint64_t inodes);

/** After a recount: starts and clears timers by the usage now known. */
void quota_usage_settle(struct quota *quota);

/** Sets one id's usage: a repair by quotacheck. */
void quota_usage_set(struct quota *quota, enum quota_kind kind, uint32_t id, const struct quota_usage *usage);

void quota_set_enforce(struct quota *quota, enum quota_enforce enforce);

/** Seconds added to the calendar's clock wherever grace is looked at. */
void quota_set_clock_offset(struct quota *quota, int64_t seconds);

/** The time that grace periods go by: calendar plus offset, in seconds. */
int64_t quota_now(struct quota *quota);

void quota_get_stats(struct quota *quota, struct quota_stats *ret_stats);
void quota_reset_stats(struct quota *quota);

#endif
