/* SPDX-License-Identifier: MIT */
/*
 * Reads rows off single pages of a database, without asking SQLite.
 *
 * A damaged database is often damaged at its root, and then SQLite gives nothing of what is below.
 * Our rows are small, all integers, never spill to overflow pages, and prove themselves (row.c); so
 * each page can be read alone. Limits are there twice, in the table's leaves and in the pages of an
 * index over all columns. The format: https://sqlite.org/fileformat2.html, sections 1.6 and 2.1.
 * Every number read is checked against the page before it is used. Free space of a page is not
 * searched: what is there was deleted or moved.
 */
#include "quota/private.h"

enum {
	PAGE_INDEX_INTERIOR = 0x02,
	PAGE_INDEX_LEAF = 0x0a,
	PAGE_TABLE_LEAF = 0x0d,
};

/* What is left to read of a page. */
struct quota_bytes {
	const uint8_t *at;
	size_t left;
};

static bool quota_bytes_uint(struct quota_bytes *bytes, unsigned len, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (bytes->left < len)
		return false;
	for (unsigned i = 0; i < len; i++)
		value = value << 8 | bytes->at[i];
	bytes->at += len;
	bytes->left -= len;
	*ret_value = value;
	return true;
}

/* 1 to 9 bytes, seven bits each, the ninth whole. */
static bool quota_bytes_varint(struct quota_bytes *bytes, uint64_t *ret_value)
{
	uint64_t value = 0, byte;

	for (int i = 0; i < 9; i++) {
		if (!quota_bytes_uint(bytes, 1, &byte))
			return false;
		if (i == 8) {
			value = value << 8 | byte;
			break;
		}
		value = value << 7 | (byte & 0x7f);
		if (!(byte & 0x80))
			break;
	}
	*ret_value = value;
	return true;
}

/* One column by its serial type: 0 NULL (here: @null), 1-6 a signed integer, 8 and 9 the constants
 * 0 and 1. */
static bool quota_bytes_column(struct quota_bytes *bytes, uint64_t type, int64_t null,
			       int64_t *ret_value)
{
	static const uint8_t lengths[] = {0, 1, 2, 3, 4, 6, 8};
	uint64_t value;

	if (type == 0 || type == 8 || type == 9) {
		*ret_value = type == 0 ? null : (int64_t)(type - 8);
		return true;
	}
	if (type > 6)
		return false;
	unsigned len = lengths[type];
	if (!quota_bytes_uint(bytes, len, &value))
		return false;
	unsigned shift = 64 - 8 * len;
	*ret_value = (int64_t)(value << shift) >> shift;
	return true;
}

/* Our columns of a record. An index adds the rowid behind them, which is the key again: @extra. */
static bool quota_bytes_record(struct quota_bytes bytes, int64_t rowid, bool extra,
			       int64_t column[QUOTA_ROW_COLUMNS])
{
	uint64_t header_len, type[QUOTA_ROW_COLUMNS + 1] = {0};
	unsigned nr = QUOTA_ROW_COLUMNS + extra;
	struct quota_bytes body = bytes;

	/* so few integer columns: every serial type is one byte long, and so is the header's length
	 */
	if (!quota_bytes_varint(&body, &header_len) || header_len != nr + 1)
		return false;
	for (unsigned i = 0; i < nr; i++) {
		if (!quota_bytes_uint(&body, 1, &type[i]))
			return false;
	}
	for (unsigned i = 0; i < QUOTA_ROW_COLUMNS; i++) {
		if (!quota_bytes_column(&body, type[i], rowid, &column[i]))
			return false;
	}
	return true;
}

/* Gives a record to @visit if its sum says which table's row it is. */
static int quota_columns_visit(const int64_t column[QUOTA_ROW_COLUMNS], quota_row_visit *visit,
			       void *context)
{
	struct quota_row row = {.key = column[0], .stamp = column[1]};

	for (int i = 0; i < QUOTA_ROW_VALUES; i++)
		row.value[i] = column[2 + i];
	for (int kind = 0; kind < QUOTA_ROW_KINDS; kind++) {
		row.row_kind = (enum quota_row_kind)kind;
		if (quota_row_is_sound(&row, column[QUOTA_ROW_COLUMNS - 1]))
			return visit(context, &row);
	}
	return 0;
}

static int quota_cell_visit(struct quota_bytes cell, uint8_t page_type, quota_row_visit *visit,
			    void *context)
{
	int64_t column[QUOTA_ROW_COLUMNS];
	uint64_t child, len, rowid = 0;

	if (page_type == PAGE_INDEX_INTERIOR && !quota_bytes_uint(&cell, 4, &child))
		return 0;
	if (!quota_bytes_varint(&cell, &len))
		return 0;
	if (page_type == PAGE_TABLE_LEAF && !quota_bytes_varint(&cell, &rowid))
		return 0;
	if (len > cell.left)
		return 0;
	cell.left = len;
	if (!quota_bytes_record(cell, (int64_t)rowid, page_type != PAGE_TABLE_LEAF, column))
		return 0;
	return quota_columns_visit(column, visit, context);
}

int quota_page_rows(const uint8_t page[QUOTA_DB_PAGE_SIZE], quota_row_visit *visit, void *context)
{
	uint8_t type = page[0];
	size_t header_len = type == PAGE_INDEX_INTERIOR ? 12 : 8;

	if (type != PAGE_INDEX_INTERIOR && type != PAGE_INDEX_LEAF && type != PAGE_TABLE_LEAF)
		return 0;
	size_t nr_cells = (size_t)page[3] << 8 | page[4];
	for (size_t i = 0; i < nr_cells && header_len + 2 * i + 1 < QUOTA_DB_PAGE_SIZE; i++) {
		const uint8_t *pointer = page + header_len + 2 * i;
		size_t off = (size_t)pointer[0] << 8 | pointer[1];
		if (off >= QUOTA_DB_PAGE_SIZE)
			continue;
		int r = quota_cell_visit((struct quota_bytes){page + off, QUOTA_DB_PAGE_SIZE - off},
					 type, visit, context);
		if (r < 0)
			return r;
	}
	return 0;
}
