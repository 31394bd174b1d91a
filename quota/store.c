/* SPDX-License-Identifier: MIT */
/*
 * The database of limits, grace, usage and timers: one SQLite file.
 *
 * A rollback journal and synchronous=EXTRA: when a commit returns it is on the disk, the journal's
 * removal too, and between transactions there is one file and nothing beside it. (A write-ahead log
 * would be faster for many small commits; there are few, and a -wal file beside a damaged database
 * is one more thing to lose.) The row of meta says "clean" or "in use": clean is written in the
 * transaction that saves the usage, in use in one of its own before the first change.
 *
 * A new database is made under another name and renamed when it is whole: an empty file at the path
 * was truncated, not "just being made". Rows are never deleted, so an old copy on a freed page is
 * never the only one.
 */
#include "quota/private.h"

#include <fcntl.h>
#include <libgen.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#define QUOTA_STATE_CLEAN "clean"
#define QUOTA_STATE_IN_USE "in use"

static const char *const quota_put_sql[QUOTA_ROW_KINDS] = {
	[QUOTA_ROW_LIMITS] = "INSERT OR REPLACE INTO limits VALUES(?,?,?,?,?,?,?)",
	[QUOTA_ROW_USAGE] = "INSERT OR REPLACE INTO usage VALUES(?,?,?,?,?,?,?)",
	[QUOTA_ROW_GRACE] = "INSERT OR REPLACE INTO grace VALUES(?,?,?,?,?,?,?)",
};

static const char *const quota_get_sql[QUOTA_ROW_KINDS] = {
	[QUOTA_ROW_LIMITS] = "SELECT * FROM limits NOT INDEXED",
	[QUOTA_ROW_USAGE] = "SELECT * FROM usage",
	[QUOTA_ROW_GRACE] = "SELECT * FROM grace",
};

int quota_store_errno(sqlite3 *db, int code)
{
	int error = db ? sqlite3_system_errno(db) : 0;

	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_ERROR: /* a table or column that is not there */
	case SQLITE_FORMAT:
		return -EUCLEAN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	default:
		return error ? -error : -EIO;
	}
}

static int quota_exec(sqlite3 *db, const char *sql)
{
	int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
	return quota_store_errno(db, code);
}

int quota_store_sync_directory(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	_cleanup_close_ int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

/* Every path by which a corrupt file could surprise is closed before it is read. */
static int quota_store_configure(sqlite3 *db)
{
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return quota_exec(
		db, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA synchronous=EXTRA;");
}

void quota_store_free(struct quota_store *store)
{
	if (!store)
		return;
	for (int kind = 0; kind < QUOTA_ROW_KINDS; kind++)
		sqlite3_finalize(store->put[kind]);
	sqlite3_close(store->db);
	lock_fini(&store->lock);
	free(store);
}

static void quota_store_cleanup(struct quota_store **store)
{
	quota_store_free(*store);
}

/* Says why, if anybody asks, and gives -EUCLEAN. */
static int quota_store_why(char **ret_why, const char *text)
{
	if (!ret_why)
		return -EUCLEAN;
	free(*ret_why);
	*ret_why = strdup(text);
	return -EUCLEAN;
}

/* A handle on @path; nothing is written yet. */
static int quota_store_connect(const char *path, struct quota_store **ret_store, char **ret_why)
{
	_cleanup_(quota_store_cleanup) struct quota_store *store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	lock_init(&store->lock);
	int code = sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
				   NULL);
	if (code != SQLITE_OK)
		return quota_store_errno(store->db, code);
	int r = quota_store_configure(store->db);
	if (r == -EUCLEAN) /* to set its options SQLite has read the schema */
		return quota_store_why(ret_why, sqlite3_errmsg(store->db));
	if (r < 0)
		return r;
	*ret_store = take_ptr(store);
	return 0;
}

static int quota_store_prepare(struct quota_store *store)
{
	for (int kind = 0; kind < QUOTA_ROW_KINDS; kind++) {
		int code = sqlite3_prepare_v3(store->db, quota_put_sql[kind], -1,
					      SQLITE_PREPARE_PERSISTENT, &store->put[kind], NULL);
		if (code != SQLITE_OK)
			return quota_store_errno(store->db, code);
	}
	return 0;
}

int quota_store_begin_locked(struct quota_store *store)
{
	lock_assert_held(&store->lock);
	return quota_exec(store->db, "BEGIN IMMEDIATE");
}

int quota_store_put_locked(struct quota_store *store, struct quota_row *row)
{
	sqlite3_stmt *stmt = store->put[row->row_kind];

	lock_assert_held(&store->lock);
	row->stamp = ++store->stamp;
	sqlite3_bind_int64(stmt, 1, row->key);
	sqlite3_bind_int64(stmt, 2, row->stamp);
	for (int i = 0; i < QUOTA_ROW_VALUES; i++)
		sqlite3_bind_int64(stmt, 3 + i, row->value[i]);
	sqlite3_bind_int64(stmt, QUOTA_ROW_COLUMNS, quota_row_sum(row));
	int r = quota_store_errno(store->db, sqlite3_step(stmt));
	sqlite3_reset(stmt);
	return r;
}

int quota_store_mark_locked(struct quota_store *store, bool clean)
{
	lock_assert_held(&store->lock);
	return quota_exec(store->db,
			  clean ? "INSERT OR REPLACE INTO meta VALUES(0,'" QUOTA_STATE_CLEAN "')"
				: "INSERT OR REPLACE INTO meta VALUES(0,'" QUOTA_STATE_IN_USE "')");
}

int quota_store_end_locked(struct quota_store *store, int r)
{
	lock_assert_held(&store->lock);
	if (r == 0)
		r = quota_exec(store->db, "COMMIT");
	if (r < 0 && !sqlite3_get_autocommit(store->db))
		quota_exec(store->db,
			   "ROLLBACK"); /* it can only fail where r has said why already */
	return r;
}

/* ---- making one ---- */

static int quota_store_fill(struct quota_store *store, const struct quota_row *rows, size_t nr_rows)
{
	char pragmas[128];

	snprintf(pragmas, sizeof(pragmas),
		 "PRAGMA page_size=%u; PRAGMA application_id=%d; PRAGMA user_version=%d;",
		 QUOTA_DB_PAGE_SIZE, QUOTA_DB_APPLICATION_ID, QUOTA_DB_VERSION);
	int r = quota_exec(store->db, pragmas);
	if (r == 0)
		r = quota_exec(store->db, quota_schema);
	if (r == 0)
		r = quota_store_prepare(store);
	LOCK_SCOPE(&store->lock);
	if (r == 0)
		r = quota_store_begin_locked(store);
	for (size_t i = 0; r == 0 && i < nr_rows; i++) {
		struct quota_row row = rows[i];
		r = quota_store_put_locked(store, &row);
	}
	if (r == 0)
		r = quota_store_mark_locked(store, false);
	return quota_store_end_locked(store, r);
}

/* An empty file at @path, and nothing beside it that SQLite could take for its journal. */
static int quota_store_make_room(const char *path)
{
	_cleanup_free_ char *journal = quota_store_name(path, "-journal");
	if (!journal)
		return -ENOMEM;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	if (unlink(journal) < 0 && errno != ENOENT)
		return -errno;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : 0;
}

char *quota_store_name(const char *path, const char *suffix)
{
	char *name;
	return asprintf(&name, "%s%s", path, suffix) < 0 ? NULL : name;
}

int quota_store_build(const char *path, const struct quota_row *rows, size_t nr_rows)
{
	_cleanup_(quota_store_cleanup) struct quota_store *store = NULL;

	int r = quota_store_make_room(path);
	if (r == 0)
		r = quota_store_connect(path, &store, NULL);
	if (r == 0)
		r = quota_store_fill(store, rows, nr_rows);
	if (r < 0)
		unlink(path);
	return r;
}

int quota_store_install(const char *built, const char *path)
{
	if (rename(built, path) < 0)
		return -errno;
	return quota_store_sync_directory(path);
}

static int quota_store_create(const char *path)
{
	_cleanup_free_ char *temporary = quota_store_name(path, QUOTA_STORE_TEMPORARY);
	if (!temporary)
		return -ENOMEM;
	int r = quota_store_build(temporary, NULL, 0);
	return r < 0 ? r : quota_store_install(temporary, path);
}

/* ---- opening one ---- */

static int quota_load_table(struct quota_store *store, enum quota_row_kind kind,
			    quota_row_visit *visit, void *context, char **ret_why)
{
	sqlite3_stmt *stmt = NULL;
	int r = 0, code = sqlite3_prepare_v2(store->db, quota_get_sql[kind], -1, &stmt, NULL);

	while (r == 0 && code == SQLITE_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct quota_row row = {.row_kind = kind,
					.key = sqlite3_column_int64(stmt, 0),
					.stamp = sqlite3_column_int64(stmt, 1)};
		for (int i = 0; i < QUOTA_ROW_VALUES; i++)
			row.value[i] = sqlite3_column_int64(stmt, 2 + i);
		if (!quota_row_is_sound(&row, sqlite3_column_int64(stmt, QUOTA_ROW_COLUMNS - 1)))
			r = quota_store_why(ret_why, "a row's sum does not match its values");
		else
			r = visit(context, &row);
		if (row.stamp > store->stamp)
			store->stamp = row.stamp;
		code = SQLITE_OK;
	}
	if (r == 0)
		r = quota_store_errno(store->db, code);
	if (r == -EUCLEAN && !*ret_why)
		r = quota_store_why(ret_why, sqlite3_errmsg(store->db));
	sqlite3_finalize(stmt);
	return r;
}

static int quota_load_state(struct quota_store *store, bool *ret_clean, char **ret_why)
{
	sqlite3_stmt *stmt = NULL;
	int r = 0, code = sqlite3_prepare_v2(store->db, "SELECT state FROM meta WHERE key = 0", -1,
					     &stmt, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(stmt);
	const char *state = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
	if (state &&
	    (strcmp(state, QUOTA_STATE_CLEAN) == 0 || strcmp(state, QUOTA_STATE_IN_USE) == 0))
		*ret_clean = strcmp(state, QUOTA_STATE_CLEAN) == 0;
	else if (code == SQLITE_ROW || code == SQLITE_DONE)
		r = quota_store_why(ret_why, "it does not say whether it was closed cleanly");
	else
		r = quota_store_errno(store->db, code);
	sqlite3_finalize(stmt);
	return r;
}

/* All reads in one transaction, which changes nothing. */
static int quota_store_load(struct quota_store *store, const char *path, quota_row_visit *visit,
			    void *context, bool *ret_clean, char **ret_why)
{
	int r = quota_exec(store->db, "BEGIN");
	if (r == 0)
		r = quota_check_database(store->db, path, ret_why);
	for (int kind = 0; r == 0 && kind < QUOTA_ROW_KINDS; kind++)
		r = quota_load_table(store, (enum quota_row_kind)kind, visit, context, ret_why);
	if (r == 0)
		r = quota_load_state(store, ret_clean, ret_why);
	if (r == 0)
		r = quota_exec(store->db, "COMMIT");
	if (r == -EUCLEAN && !*ret_why)
		r = quota_store_why(ret_why, sqlite3_errmsg(store->db));
	return r;
}

int quota_store_open(const char *path, quota_row_visit *visit, void *context, bool *ret_clean,
		     struct quota_store **ret_store, char **ret_why)
{
	_cleanup_(quota_store_cleanup) struct quota_store *store = NULL;

	int r = quota_check_header(path, ret_why);
	if (r == -ENOENT) {
		r = quota_store_create(path);
		if (r == 0)
			r = quota_check_header(path, ret_why);
	}
	if (r < 0)
		return r;
	r = quota_store_connect(path, &store, ret_why);
	if (r == 0)
		r = quota_store_load(store, path, visit, context, ret_clean, ret_why);
	if (r == 0)
		r = quota_store_prepare(store);
	if (r < 0)
		return r;
	*ret_store = take_ptr(store);
	return 0;
}
