/* SPDX-License-Identifier: MIT */
/*
 * Keeps what can be kept of a damaged database.
 *
 * Rows are read off its pages one by one (page.c), and off those of a rollback journal beside it;
 * of several copies of a key the newest counts. A new database is made of them, and only when it is
 * whole and durable does it take the old one's place. A kill at any point leaves the old file at
 * its path or the new one, and never the old one's journal beside the new:
 *
 *	PATH.new			built, whole and durable
 *	PATH (damaged)			gets a second name, PATH.damaged-N
 *	PATH-journal, if any		renamed to PATH.damaged-N-journal; directory synced
 *	PATH.new			renamed to PATH; directory synced
 *
 * Limits, grace and timers are kept. Usage is not trusted: the new database is marked in use, so it
 * is recounted.
 */
#include "quota/private.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define QUOTA_JOURNAL_HEADER 512u                           /* a sector, as SQLite pads it */
#define QUOTA_JOURNAL_RECORD (4u + QUOTA_DB_PAGE_SIZE + 4u) /* page number, page, checksum */
#define QUOTA_DAMAGED_MAX 10000u

struct quota_rows {
	struct quota_row *row;
	size_t nr, room;
};

static void quota_rows_fini(struct quota_rows *rows)
{
	free(rows->row);
}

/* A quota_row_visit. */
static int quota_rows_add(void *context, const struct quota_row *row)
{
	struct quota_rows *rows = context;

	if (rows->nr == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 256;
		struct quota_row *grown = reallocarray(rows->row, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		rows->row = grown;
		rows->room = room;
	}
	rows->row[rows->nr++] = *row;
	return 0;
}

/* Reads pages at @off, @off + @step, ... A page that ends with the file is filled up with zeroes;
 * one that the disk refuses is left out. */
static int quota_salvage_pages(const char *path, off_t off, off_t step, struct quota_rows *rows)
{
	uint8_t page[QUOTA_DB_PAGE_SIZE];

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;; off += step) {
		memset(page, 0, sizeof(page));
		ssize_t n = pread(fd, page, sizeof(page), off);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EIO)
			return -errno;
		int r = quota_page_rows(page, quota_rows_add, rows);
		if (r < 0)
			return r;
	}
}

static int quota_row_compare(const void *a, const void *b)
{
	const struct quota_row *x = a, *y = b;

	if (x->row_kind != y->row_kind)
		return x->row_kind < y->row_kind ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->stamp < y->stamp) - (x->stamp > y->stamp); /* newest first */
}

/* Leaves the newest of each key, usage forgotten. Returns how many ids have limits. */
static uint64_t quota_rows_newest(struct quota_rows *rows)
{
	uint64_t limits = 0;
	size_t kept = 0;

	if (rows->nr > 1)
		qsort(rows->row, rows->nr, sizeof(*rows->row), quota_row_compare);
	for (size_t i = 0; i < rows->nr; i++) {
		struct quota_row *row = &rows->row[i], *last = kept ? &rows->row[kept - 1] : NULL;
		if (last && last->row_kind == row->row_kind && last->key == row->key)
			continue;
		if (row->row_kind == QUOTA_ROW_USAGE)
			row->value[0] = row->value[1] = 0;
		if (row->row_kind == QUOTA_ROW_LIMITS)
			limits += (row->value[0] | row->value[1] | row->value[2] | row->value[3]) !=
				  0;
		rows->row[kept++] = *row;
	}
	rows->nr = kept;
	return limits;
}

/* Gives @path a second name that nothing has yet. *@ret_name: heap. */
static int quota_link_damaged(const char *path, char **ret_name)
{
	for (unsigned n = 1; n <= QUOTA_DAMAGED_MAX; n++) {
		char suffix[32];
		snprintf(suffix, sizeof(suffix), ".damaged-%u", n);
		_cleanup_free_ char *name = quota_store_name(path, suffix);
		if (!name)
			return -ENOMEM;
		if (link(path, name) == 0) {
			*ret_name = take_ptr(name);
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* Keeps the damaged file and its journal under another name, durably. */
static int quota_set_aside(const char *path, const char *journal)
{
	_cleanup_free_ char *name = NULL;

	int r = quota_link_damaged(path, &name);
	if (r < 0)
		return r;
	_cleanup_free_ char *journal_name = quota_store_name(name, "-journal");
	if (!journal_name)
		return -ENOMEM;
	if (rename(journal, journal_name) < 0 && errno != ENOENT)
		return -errno;
	return quota_store_sync_directory(path);
}

static int quota_salvage_rows(const char *path, const char *journal, struct quota_rows *rows)
{
	int r = quota_salvage_pages(path, 0, QUOTA_DB_PAGE_SIZE, rows);
	if (r < 0)
		return r;
	r = quota_salvage_pages(journal, QUOTA_JOURNAL_HEADER + 4, QUOTA_JOURNAL_RECORD, rows);
	return r == -ENOENT ? 0 : r;
}

int quota_salvage(const char *path, uint64_t *ret_kept)
{
	_cleanup_(quota_rows_fini) struct quota_rows rows = {0};
	_cleanup_free_ char *journal = quota_store_name(path, "-journal");
	_cleanup_free_ char *temporary = quota_store_name(path, QUOTA_STORE_TEMPORARY);

	if (!journal || !temporary)
		return -ENOMEM;
	int r = quota_salvage_rows(path, journal, &rows);
	if (r < 0)
		return r;
	uint64_t kept = quota_rows_newest(&rows);
	r = quota_store_build(temporary, rows.row, rows.nr);
	if (r == 0)
		r = quota_set_aside(path, journal);
	if (r == 0)
		r = quota_store_install(temporary, path);
	if (r < 0) {
		unlink(temporary);
		return r;
	}
	*ret_kept = kept;
	return 0;
}
