/* SPDX-License-Identifier: MIT */
/*
 * Is this file a sound database of ours? Asked before anything is written to it.
 *
 * In this order: the first bytes, read by us, so that SQLite is never let near a file that is not
 * ours; the version, the length, the schema (page numbers of roots included); SQLite's integrity
 * check, of trees and of the index against its table. The rows' sums are checked while they are loaded
 * (store.c). A rollback journal that a killed process left is the one thing that changes the file,
 * and that is how the file becomes sound.
 */
#include "quota/private.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

/* What creates the database. limits_copy holds every column, so that limits exist twice, on
 * different pages. */
const char quota_schema[] =
	"CREATE TABLE limits(key INTEGER PRIMARY KEY, stamp INTEGER NOT NULL,"
	" bytes_soft INTEGER NOT NULL, bytes_hard INTEGER NOT NULL,"
	" inodes_soft INTEGER NOT NULL, inodes_hard INTEGER NOT NULL, sum INTEGER NOT NULL);"
	"CREATE INDEX limits_copy ON limits(key, stamp, bytes_soft, bytes_hard, inodes_soft,"
	" inodes_hard, sum);"
	"CREATE TABLE usage(key INTEGER PRIMARY KEY, stamp INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, inodes INTEGER NOT NULL, bytes_expire INTEGER NOT NULL,"
	" inodes_expire INTEGER NOT NULL, sum INTEGER NOT NULL);"
	"CREATE TABLE grace(key INTEGER PRIMARY KEY, stamp INTEGER NOT NULL,"
	" bytes_seconds INTEGER NOT NULL, inodes_seconds INTEGER NOT NULL,"
	" spare_1 INTEGER NOT NULL, spare_2 INTEGER NOT NULL, sum INTEGER NOT NULL);"
	"CREATE TABLE meta(key INTEGER PRIMARY KEY, state TEXT NOT NULL)";

static int quota_unsound(char **ret_why, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Says why, on the heap, and gives -EUCLEAN. */
static int quota_unsound(char **ret_why, const char *format, ...)
{
	char *why = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&why, format, args) < 0)
		why = NULL;
	va_end(args);
	free(*ret_why);
	*ret_why = why;
	return -EUCLEAN;
}

int quota_check_header(const char *path, char **ret_why)
{
	static const char magic[16] = "SQLite format 3";
	uint8_t header[100];
	struct stat st;

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return quota_unsound(ret_why, "not a regular file");
	if (st.st_size == 0)
		return quota_unsound(ret_why, "the file is empty: it has been truncated");
	ssize_t n = pread(fd, header, sizeof(header), 0);
	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(header))
		return quota_unsound(ret_why, "only %zd bytes long: truncated, or no database", n);
	if (memcmp(header, magic, sizeof(magic)) != 0)
		return quota_unsound(ret_why,
				     "no SQLite database: the first bytes are not its signature");
	uint32_t id = (uint32_t)header[68] << 24 | (uint32_t)header[69] << 16 |
		      (uint32_t)header[70] << 8 | header[71];
	if (id != QUOTA_DB_APPLICATION_ID)
		return quota_unsound(ret_why,
				     "not a quota database: application id 0x%08x, expected 0x%08x",
				     id, QUOTA_DB_APPLICATION_ID);
	unsigned page_size = (unsigned)header[16] << 8 | header[17];
	if (page_size != QUOTA_DB_PAGE_SIZE)
		return quota_unsound(ret_why, "the header says pages of %u bytes, ours have %u",
				     page_size, QUOTA_DB_PAGE_SIZE);
	/* 1: rollback journal. With 2 SQLite would make a write-ahead log, which we never use */
	if (header[18] != 1 || header[19] != 1)
		return quota_unsound(ret_why,
				     "the header says journal modes %u and %u, ours are 1 and 1",
				     header[18], header[19]);
	return 0;
}

/* Runs a query of one row and one column. *@ret_text: heap. */
static int quota_query_text(sqlite3 *db, const char *sql, char **ret_text)
{
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(stmt);
	int r = code == SQLITE_ROW ? 0 : quota_store_errno(db, code);
	if (r == 0) {
		const unsigned char *text = sqlite3_column_text(stmt, 0);
		*ret_text = strdup(text ? (const char *)text : "");
		r = *ret_text ? 0 : -ENOMEM;
	}
	sqlite3_finalize(stmt);
	return r;
}

/* As quota_query_text(), and compares; damage met on the way is said in SQLite's words. */
static int quota_expect(sqlite3 *db, const char *sql, const char *expected, char **ret_why)
{
	_cleanup_free_ char *text = NULL;

	int r = quota_query_text(db, sql, &text);
	if (r == -EUCLEAN)
		return quota_unsound(ret_why, "%s (at %s)", sqlite3_errmsg(db), sql);
	if (r < 0)
		return r;
	if (strcmp(text, expected) != 0)
		return quota_unsound(ret_why, "%s gives \"%.200s\", expected \"%.200s\"", sql, text,
				     expected);
	return 0;
}

/* The whole schema in one text, roots included: they are the same in every database of this
 * version. */
#define QUOTA_SCHEMA_TEXT                                                                          \
	"SELECT group_concat(type || '|' || name || '|' || tbl_name || '|' || rootpage || '|' || " \
	"sql, ';')"                                                                                \
	" FROM (SELECT * FROM sqlite_schema ORDER BY rowid)"

static int quota_check_schema(sqlite3 *db, char **ret_why)
{
	_cleanup_free_ char *expected = NULL, *found = NULL;
	sqlite3 *model = NULL;

	int code = sqlite3_open(":memory:", &model);
	if (code == SQLITE_OK)
		code = sqlite3_exec(model, quota_schema, NULL, NULL, NULL);
	int r = code == SQLITE_OK ? quota_query_text(model, QUOTA_SCHEMA_TEXT, &expected) : -ENOMEM;
	sqlite3_close(model);
	if (r < 0)
		return r;
	r = quota_query_text(db, QUOTA_SCHEMA_TEXT, &found);
	if (r == -EUCLEAN)
		return quota_unsound(ret_why, "the schema cannot be read: %s", sqlite3_errmsg(db));
	if (r == 0 && strcmp(found, expected) != 0)
		return quota_unsound(ret_why, "the schema is not that of a quota database");
	return r;
}

static int quota_check_length(sqlite3 *db, const char *path, char **ret_why)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;

	int r = quota_query_text(db, "PRAGMA page_count", &text);
	if (r < 0)
		return r;
	if (stat(path, &st) < 0)
		return -errno;
	long long expected = strtoll(text, NULL, 10) * QUOTA_DB_PAGE_SIZE;
	if (st.st_size != expected)
		return quota_unsound(
			ret_why, "%lld bytes long, the header says %lld: truncated, or added to",
			(long long)st.st_size, expected);
	return 0;
}

int quota_check_database(sqlite3 *db, const char *path, char **ret_why)
{
	char version[16];

	/* the first query plays back a journal that a killed process left */
	snprintf(version, sizeof(version), "%d", QUOTA_DB_VERSION);
	int r = quota_expect(db, "PRAGMA user_version", version, ret_why);
	if (r == 0)
		r = quota_check_length(db, path, ret_why);
	if (r == 0)
		r = quota_check_schema(db, ret_why);
	if (r == 0)
		r = quota_expect(db, "PRAGMA integrity_check(1)", "ok", ret_why);
	return r;
}
