/* SPDX-License-Identifier: MIT */
/* The map of charged blocks against a naive array of bools, and against real files. */
#include <check.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/sizes.h"
#include "fusefs/private.h"

#define UNIT 4096ull
#define CHUNK (32768 * UNIT)
#define MODEL_BLOCKS (5 * 32768u)

static struct fs_blocks *new_map(uint32_t unit)
{
	struct fs_blocks *blocks;
	ck_assert_int_eq(fs_blocks_new(unit, &blocks), 0);
	return blocks;
}

static uint64_t set_range(struct fs_blocks *blocks, uint64_t off, uint64_t len)
{
	uint64_t added;
	ck_assert_int_eq(fs_blocks_set(blocks, off, len, &added), 0);
	return added;
}

START_TEST(a_byte_costs_the_whole_block_it_touches)
{
	struct fs_blocks *blocks = new_map(UNIT);
	ck_assert_uint_eq(fs_blocks_missing(blocks, 4095, 1), 1);
	ck_assert_uint_eq(fs_blocks_missing(blocks, 4095, 2), 2);
	ck_assert_uint_eq(set_range(blocks, 4095, 2), 2);
	ck_assert_uint_eq(set_range(blocks, 0, 8192), 0);
	ck_assert_uint_eq(fs_blocks_missing(blocks, 0, 3 * UNIT), 1);
	ck_assert_uint_eq(fs_blocks_missing(blocks, 0, 0), 0);
	ck_assert_uint_eq(set_range(blocks, 1 << 20, 0), 0);
	fs_blocks_free(blocks);
}
END_TEST

START_TEST(only_blocks_wholly_inside_the_range_are_cleared)
{
	struct fs_blocks *blocks = new_map(UNIT);
	set_range(blocks, 0, 4 * UNIT);
	ck_assert_uint_eq(fs_blocks_clear(blocks, 1, 2 * UNIT), 1);
	ck_assert_uint_eq(fs_blocks_missing(blocks, UNIT, UNIT), 1);
	ck_assert_uint_eq(fs_blocks_clear(blocks, 2 * UNIT + 1, UINT64_MAX), 1);
	ck_assert_uint_eq(fs_blocks_count(blocks), 2);
	ck_assert_uint_eq(fs_blocks_clear(blocks, 0, UINT64_MAX), 2);
	ck_assert_uint_eq(fs_blocks_next(blocks, 0, true), UINT64_MAX);
	fs_blocks_free(blocks);
}
END_TEST

START_TEST(the_last_block_of_the_largest_file_is_like_any_other)
{
	struct fs_blocks *blocks = new_map(UNIT);
	uint64_t last = INT64_MAX - 1;
	ck_assert_uint_eq(set_range(blocks, last, 1), 1);
	ck_assert_uint_eq(fs_blocks_missing(blocks, last, 1), 0);
	ck_assert_uint_eq(fs_blocks_next(blocks, 0, true), round_down_pow2(last, UNIT));
	ck_assert_uint_eq(fs_blocks_next(blocks, last, false), 1ull << 63);
	ck_assert_uint_eq(fs_blocks_missing(blocks, 0, INT64_MAX), (1ull << 51) - 1);
	ck_assert_uint_eq(fs_blocks_clear(blocks, 0, UINT64_MAX), 1);
	fs_blocks_free(blocks);
}
END_TEST

START_TEST(what_is_granted_covers_what_was_there_already_as_well)
{
	struct fs_blocks *blocks = new_map(UNIT);
	set_range(blocks, 0, UNIT);
	set_range(blocks, 2 * UNIT, UNIT);
	uint64_t len = 4 * UNIT - 100;
	ck_assert_uint_eq(fs_blocks_covered(blocks, 100, len, 0), UNIT - 100);
	ck_assert_uint_eq(fs_blocks_covered(blocks, 100, len, 1), 3 * UNIT - 100);
	ck_assert_uint_eq(fs_blocks_covered(blocks, 100, len, 2), len);
	ck_assert_uint_eq(fs_blocks_covered(blocks, UNIT + 5, 10, 0), 0);
	ck_assert_uint_eq(fs_blocks_covered(blocks, UNIT + 5, 10, 1), 10);
	fs_blocks_free(blocks);
}
END_TEST

START_TEST(terabytes_without_holes_cost_no_bitmap)
{
	struct mallinfo2 before = mallinfo2();
	struct fs_blocks *blocks = new_map(UNIT);
	ck_assert_uint_eq(set_range(blocks, 0, 16ull << 40), (16ull << 40) / UNIT);
	for (uint64_t i = 0; i < 4096; i++)
		set_range(blocks, (32ull << 40) + i * (128 << 10), 128 << 10);
	struct mallinfo2 after = mallinfo2();
	ck_assert_uint_lt(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd,
			  5 << 20);
	ck_assert_uint_eq(fs_blocks_clear(blocks, 1ull << 40, 14ull << 40), (14ull << 40) / UNIT);
	fs_blocks_free(blocks);
}
END_TEST

START_TEST(random_writes_over_256_gib_take_less_than_10_mib)
{
	struct mallinfo2 before = mallinfo2();
	struct fs_blocks *blocks = new_map(UNIT);
	uint64_t seed = 88172645463325252ull, added = 0;
	for (int i = 0; i < 200000; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		added += set_range(blocks, (seed % (1ull << 26)) * UNIT, UNIT);
	}
	ck_assert_uint_eq(fs_blocks_count(blocks), added);
	struct mallinfo2 after = mallinfo2();
	ck_assert_uint_lt(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd,
			  10 << 20);
	fs_blocks_free(blocks);
}
END_TEST

/* ---- against the model ---- */

struct model {
	bool set[MODEL_BLOCKS];
	uint32_t count;
};

static uint64_t model_missing(const struct model *model, uint64_t off, uint64_t len)
{
	uint64_t missing = 0;
	for (uint64_t b = off / UNIT; len > 0 && b <= (off + len - 1) / UNIT; b++)
		missing += !model->set[b];
	return missing;
}

static uint64_t model_set(struct model *model, uint64_t off, uint64_t len)
{
	uint64_t added = model_missing(model, off, len);
	for (uint64_t b = off / UNIT; len > 0 && b <= (off + len - 1) / UNIT; b++)
		model->set[b] = true;
	model->count += (uint32_t)added;
	return added;
}

static uint64_t model_clear(struct model *model, uint64_t off, uint64_t len)
{
	uint64_t removed = 0;
	for (uint64_t b = div_round_up(off, UNIT); (b + 1) * UNIT <= off + len; b++) {
		removed += model->set[b];
		model->set[b] = false;
	}
	model->count -= (uint32_t)removed;
	return removed;
}

static uint64_t model_next(const struct model *model, uint64_t off, bool set)
{
	for (uint64_t b = off / UNIT; b < MODEL_BLOCKS; b++) {
		if (model->set[b] == set)
			return max_u64(off, b * UNIT);
	}
	return set ? UINT64_MAX : max_u64(off, MODEL_BLOCKS * UNIT);
}

static uint64_t model_covered(const struct model *model, uint64_t off, uint64_t len, uint64_t count)
{
	for (uint64_t b = off / UNIT; b <= (off + len - 1) / UNIT; b++) {
		if (!model->set[b] && count-- == 0)
			return max_u64(off, b * UNIT) - off;
	}
	return len;
}

static uint64_t random_len(uint64_t off)
{
	uint64_t most = 1ull << (random() % 30);
	uint64_t len = (uint64_t)random() % most + 1;
	return min_u64(len, MODEL_BLOCKS * UNIT - off);
}

static uint64_t random_off(void)
{
	/* half of them near the borders of chunks */
	uint64_t off = (uint64_t)random() % (MODEL_BLOCKS * UNIT);
	if (random() % 2)
		off = (off / CHUNK) * CHUNK + (uint64_t)random() % (4 * UNIT);
	return off;
}

START_TEST(a_random_history_agrees_with_the_naive_model)
{
	srandom(4711 + (unsigned)_i);
	struct model *model = calloc(1, sizeof(*model));
	struct fs_blocks *blocks = new_map(UNIT);
	for (int step = 0; step < 1500; step++) {
		uint64_t off = random_off(), len = random_len(off);
		uint64_t missing = model_missing(model, off, len);
		ck_assert_uint_eq(fs_blocks_missing(blocks, off, len), missing);
		uint64_t count = missing ? (uint64_t)random() % (missing + 1) : 0;
		ck_assert_uint_eq(fs_blocks_covered(blocks, off, len, count),
				  model_covered(model, off, len, count));
		if (random() % 100 < 55)
			ck_assert_uint_eq(set_range(blocks, off, len), model_set(model, off, len));
		else
			ck_assert_uint_eq(fs_blocks_clear(blocks, off, len),
					  model_clear(model, off, len));
		ck_assert_uint_eq(fs_blocks_count(blocks), model->count);
		uint64_t at = random_off();
		ck_assert_uint_eq(fs_blocks_next(blocks, at, true), model_next(model, at, true));
		ck_assert_uint_eq(fs_blocks_next(blocks, at, false), model_next(model, at, false));
	}
	fs_blocks_free(blocks);
	free(model);
}
END_TEST

/* ---- against files ---- */

static int temp_file(const char *dir)
{
	char path[64];
	snprintf(path, sizeof(path), "%s/chokefs-blocks-XXXXXX", dir);
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	unlink(path);
	return fd;
}

static void put(int fd, uint64_t off, size_t len)
{
	char *data = malloc(len);
	memset(data, 'x', len);
	ck_assert_int_eq(pwrite(fd, data, len, (off_t)off), (ssize_t)len);
	free(data);
}

static const char *const file_dirs[] = { ".", "/dev/shm" };

START_TEST(a_map_that_is_loaded_counts_what_measuring_counts)
{
	int fd = temp_file(file_dirs[_i]);
	put(fd, 0, 10);
	put(fd, 5 * UNIT + 17, 3 * UNIT);
	put(fd, 300 * CHUNK, 1);
	for (uint64_t i = 0; i < 200; i++) /* more extents than one FIEMAP call returns */
		put(fd, CHUNK + 3 * i * 16384, 1);
	for (uint32_t unit = 4096; unit <= 65536; unit *= 2) {
		struct fs_blocks *blocks;
		uint64_t bytes;
		ck_assert_int_eq(fs_blocks_load(fd, unit, &blocks), 0);
		ck_assert_int_eq(fs_blocks_measure(fd, unit, &bytes), 0);
		ck_assert_uint_eq(fs_blocks_count(blocks) * unit, bytes);
		if (unit == UNIT)
			ck_assert_uint_eq(fs_blocks_count(blocks), 1 + 4 + 1 + 200);
		fs_blocks_free(blocks);
	}
	close(fd);
}
END_TEST

START_TEST(preallocation_beyond_the_end_counts)
{
	int fd = temp_file(".");
	uint64_t bytes;
	if (!fs_blocks_charges_allocation(fd) || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 20) < 0) {
		close(fd);
		return; /* this directory's file system has no such thing */
	}
	ck_assert_int_eq(fs_blocks_measure(fd, UNIT, &bytes), 0);
	ck_assert_uint_eq(bytes, 1 << 20);
	close(fd);
}
END_TEST

START_TEST(a_reload_replaces_its_range_and_nothing_else)
{
	int fd = temp_file(file_dirs[_i]);
	struct fs_blocks *blocks = new_map(UNIT);
	put(fd, 2 * UNIT, UNIT);
	put(fd, 6 * UNIT, 100);
	set_range(blocks, 0, 5 * UNIT);
	set_range(blocks, 20 * UNIT, UNIT);
	ck_assert_int_eq(fs_blocks_reload(blocks, fd, UNIT + 1, 6 * UNIT), 0);
	ck_assert_uint_eq(fs_blocks_count(blocks), 4); /* 0, 2, 6, 20 */
	ck_assert_uint_eq(fs_blocks_missing(blocks, 2 * UNIT, UNIT), 0);
	ck_assert_uint_eq(fs_blocks_missing(blocks, 6 * UNIT, UNIT), 0);
	ck_assert_int_eq(fs_blocks_reload(blocks, fd, 3 * UNIT, INT64_MAX), 0);
	ck_assert_uint_eq(fs_blocks_count(blocks), 3); /* 20 is a hole */
	fs_blocks_free(blocks);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fusefs");
	TCase *map = tcase_create("fs_blocks");
	tcase_set_timeout(map, 120);
	tcase_add_test(map, a_byte_costs_the_whole_block_it_touches);
	tcase_add_test(map, only_blocks_wholly_inside_the_range_are_cleared);
	tcase_add_test(map, the_last_block_of_the_largest_file_is_like_any_other);
	tcase_add_test(map, what_is_granted_covers_what_was_there_already_as_well);
	tcase_add_test(map, terabytes_without_holes_cost_no_bitmap);
	tcase_add_test(map, random_writes_over_256_gib_take_less_than_10_mib);
	tcase_add_loop_test(map, a_random_history_agrees_with_the_naive_model, 0, 8);
	suite_add_tcase(suite, map);
	TCase *load = tcase_create("fs_blocks_load");
	tcase_add_loop_test(load, a_map_that_is_loaded_counts_what_measuring_counts, 0, 2);
	tcase_add_test(load, preallocation_beyond_the_end_counts);
	tcase_add_loop_test(load, a_reload_replaces_its_range_and_nothing_else, 0, 2);
	suite_add_tcase(suite, load);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
