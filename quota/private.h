/* SPDX-License-Identifier: MIT */
/*
 * What the files of quota/ share: the rules, the table of ids, the store, and the quota itself.
 *
 * Order of locks: store->lock, then shards by ascending address. No shard is held while the
 * database works.
 */
#ifndef QUOTA_PRIVATE_H
#define QUOTA_PRIVATE_H

#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "quota/quota.h"

struct sqlite3;

/* ---- rules.c: one resource of one id against its limits; pure ---- */

enum quota_resource_kind {
	QUOTA_SPACE,
	QUOTA_INODES,
	QUOTA_RESOURCES,
};

struct quota_resource {
	uint64_t soft, hard; /* 0: none */
	int64_t used;        /* never negative */
	int64_t expire;      /* calendar seconds; 0: no timer runs */
};

/** What a check goes by, apart from the resource itself. */
struct quota_terms {
	int64_t now;
	uint64_t grace; /* seconds */
	bool enforced;  /* false: counted only, no timer is started */
	bool exempt;    /* never refused, but timers start */
};

enum quota_refusal {
	QUOTA_FITS,
	QUOTA_REFUSED_HARD,
	QUOTA_REFUSED_GRACE,
	QUOTA_REFUSED_RANGE, /* beyond what can be counted */
};

/** May @amount be added? Changes nothing. */
enum quota_refusal quota_resource_check(const struct quota_resource *resource, uint64_t amount,
					const struct quota_terms *terms);
/** The most that could be added now. */
uint64_t quota_resource_room(const struct quota_resource *resource,
			     const struct quota_terms *terms);
/** Adds what quota_resource_check() let pass; starts the timer at the first crossing. */
void quota_resource_add(struct quota_resource *resource, uint64_t amount,
			const struct quota_terms *terms);
/** Takes away, at most what there is; clears the timer at or below the soft limit. Returns the
 * excess, 0 unless we have a bug. */
uint64_t quota_resource_sub(struct quota_resource *resource, uint64_t amount);
/** New limits: the timer restarts above the soft limit and is cleared at or below it. */
void quota_resource_limit(struct quota_resource *resource, uint64_t soft, uint64_t hard,
			  const struct quota_terms *terms);
/** Usage is now known by counting: keeps a timer that is still due, clears or starts it otherwise.
 */
void quota_resource_settle(struct quota_resource *resource, const struct quota_terms *terms);

/* ---- table.c: where an id's resources are ---- */

/* Locks: s its shard's   I immutable once linked */
struct quota_node {
	struct quota_node
		*next; /* [s] in the bucket; a node lives as long as the table, and never moves */
	uint32_t id;   /* [I] */
	uint8_t kind;  /* [I] enum quota_kind */
	bool unsaved;  /* [s] differs from the database */
	struct quota_resource resource[QUOTA_RESOURCES]; /* [s] */
};

struct quota_shard {
	struct lock lock;
	struct quota_node **buckets; /* [s] */
	uint32_t nr_buckets;         /* [s] a power of two */
	uint32_t nr_nodes;           /* [s] */
	uint64_t lookups, probes;    /* [s] nodes looked at, in all: what O(1) means */
} __attribute__((aligned(128)));

#define QUOTA_SHARDS 256u /* a kind */

struct quota_table {
	struct quota_shard shard[QUOTA_KINDS][QUOTA_SHARDS];
};

int quota_table_init(struct quota_table *table);
void quota_table_fini(struct quota_table *table);
struct quota_shard *quota_table_shard(struct quota_table *table, enum quota_kind kind, uint32_t id);
/** NULL if there is none. The shard's lock is held. */
struct quota_node *quota_shard_find_locked(struct quota_shard *shard, uint32_t id);
/** Finds or makes. NULL: no memory. The shard's lock is held. */
struct quota_node *quota_shard_get_locked(struct quota_shard *shard, enum quota_kind kind,
					  uint32_t id);
/** Bytes of memory that the table's ids take, allocator's share included; and its counters. For
 * tests. */
uint64_t quota_table_bytes(struct quota_table *table);
void quota_table_count(struct quota_table *table, uint64_t *ret_ids, uint64_t *ret_lookups,
		       uint64_t *ret_probes);

static inline bool quota_node_is_used(const struct quota_node *node)
{
	uint64_t any = 0;
	for (int i = 0; i < QUOTA_RESOURCES; i++)
		any |= node->resource[i].soft | node->resource[i].hard |
		       (uint64_t)node->resource[i].used | (uint64_t)node->resource[i].expire;
	return any != 0;
}

void quota_node_export(const struct quota_node *node, struct quota_entry *ret_entry);

/** Every node of @shard in turn; its lock is held. */
#define quota_shard_for_each(node, shard)                                                          \
	for (uint32_t bucket_ = 0; bucket_ < (shard)->nr_buckets; bucket_++)                       \
		for (node = (shard)->buckets[bucket_]; node; node = node->next)

/** Up to four shards, locked in the one order. */
struct quota_lock_set {
	struct quota_shard *shard[2 * QUOTA_KINDS];
	unsigned nr;
};
void quota_lock_set_add(struct quota_lock_set *set, struct quota_shard *shard);
void quota_lock_set_take(struct quota_lock_set *set);
void quota_lock_set_release(struct quota_lock_set *set);

/* ---- row.c: how a row proves that it is whole ---- */

#define QUOTA_DB_PAGE_SIZE 4096u
#define QUOTA_DB_APPLICATION_ID 0x63686f6b /* "chok" */
#define QUOTA_DB_VERSION 1

enum quota_row_kind {
	QUOTA_ROW_LIMITS, /* soft, hard of space; soft, hard of inodes */
	QUOTA_ROW_USAGE,  /* bytes, inodes; expiry of space, of inodes */
	QUOTA_ROW_GRACE,  /* seconds of space, of inodes; 0; 0 */
	QUOTA_ROW_KINDS,
};

#define QUOTA_ROW_VALUES 4

/** One row of any table. The columns are: key, stamp, the values, sum. */
struct quota_row {
	enum quota_row_kind row_kind; /* the table; mixed into the sum */
	int64_t key;                  /* kind << 32 | id; of grace: the kind alone */
	int64_t stamp; /* rises with every write: the newest copy of a key is the true one */
	int64_t value[QUOTA_ROW_VALUES];
};
#define QUOTA_ROW_COLUMNS (QUOTA_ROW_VALUES + 3)

/** The sum that goes into the last column. Never negative. */
int64_t quota_row_sum(const struct quota_row *row);
/** Is it one that we can have written? */
bool quota_row_is_sound(const struct quota_row *row, int64_t sum);

static inline int64_t quota_row_key(enum quota_kind kind, uint32_t id)
{
	return (int64_t)kind << 32 | id;
}

/** The row of a node's usage and timers. Its shard's lock is held, or it is a copy. */
struct quota_row quota_node_usage_row(const struct quota_node *node);

/* ---- store.c: the database ---- */

/* Locks: l this lock   I immutable */
struct quota_store {
	struct lock lock;
	struct sqlite3 *db;                        /* [l] */
	struct sqlite3_stmt *put[QUOTA_ROW_KINDS]; /* [l] */
	int64_t stamp;                             /* [l] the newest in the database */
};

typedef int quota_row_visit(void *context, const struct quota_row *row);

/* Beside the database while a new one is made. */
#define QUOTA_STORE_TEMPORARY ".new"

/** @path with @suffix, on the heap; NULL: no memory. */
char *quota_store_name(const char *path, const char *suffix);
/** Makes a database of @rows at @path, marked in use, durable. What was there is gone. 0 or -errno.
 */
int quota_store_build(const char *path, const struct quota_row *rows, size_t nr_rows);
/** Lets what was built take the place of @path, durably. */
int quota_store_install(const char *built, const char *path);
/** Checks all of it before a byte is changed, and gives every row to @visit. *@ret_why: heap. */
int quota_store_open(const char *path, quota_row_visit *visit, void *context, bool *ret_clean,
		     struct quota_store **ret_store, char **ret_why);
/** Frees without writing. */
void quota_store_free(struct quota_store *store);

/* A transaction: begin, put..., end. store->lock is held from begin to end. */
int quota_store_begin_locked(struct quota_store *store);
int quota_store_put_locked(struct quota_store *store, struct quota_row *row);
int quota_store_mark_locked(struct quota_store *store, bool clean);
/** Commits if @r is 0, else rolls back. Returns @r, or why the commit failed. Durable when 0. */
int quota_store_end_locked(struct quota_store *store, int r);

/** -errno for what SQLite says. */
int quota_store_errno(struct sqlite3 *db, int code);
/** Makes @name's entry in its directory durable. */
int quota_store_sync_directory(const char *path);

/* check.c */

/** What can be told from the first bytes, before SQLite is let near: 0, -EUCLEAN, -errno. */
int quota_check_header(const char *path, char **ret_why);
/** SQLite's own checks, ours of the schema, and the file's length. Reads only. */
int quota_check_database(struct sqlite3 *db, const char *path, char **ret_why);
extern const char quota_schema[];

/* page.c */

/** Gives every sound row on one page of a database to @visit, whatever else is wrong with the page.
 */
int quota_page_rows(const uint8_t page[QUOTA_DB_PAGE_SIZE], quota_row_visit *visit, void *context);

/* ---- quota.c ---- */

/* Locks: I immutable   a atomic */
struct quota {
	struct quota_table table;
	struct quota_store *store; /* [I] NULL: volatile */
	_Atomic uint64_t grace[QUOTA_KINDS][QUOTA_RESOURCES];
	_Atomic int enforce; /* enum quota_enforce */
	_Atomic int64_t clock_offset;
	_Atomic uint64_t refused_blocks, refused_inodes, refused_grace;
	atomic_bool uncounted;   /* usage awaits a recount: a close must not call it clean */
	atomic_bool miscounted;  /* an id could not be counted for want of memory: the next mount
				    must recount */
	atomic_bool said_excess; /* log_once() of a refund beyond usage */
};

struct quota_terms quota_terms_get(struct quota *quota, enum quota_kind kind,
				   enum quota_resource_kind resource, unsigned flags);

#define QUOTA_GRACE_DEFAULT_S (7 * 24 * 3600) /* MAX_DQ_TIME of Linux */

#endif
