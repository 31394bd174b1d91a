/* SPDX-License-Identifier: MIT */
/*
 * The table of inodes on a directory of its own: counts, descriptors, handles, numbers used again.
 *
 * What needs handles (root on a file system that has them) is left out elsewhere, and said so.
 */
#include "fusefs/inodes.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <unistd.h>

static char g_dir[64];
static struct fs g_fs;

static void open_table(uid_t uid)
{
	struct stat st;

	strcpy(g_dir, "/tmp/test_fusefs_inode.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(g_dir));
	if (uid != 0) {
		ck_assert_int_eq(chown(g_dir, uid, uid), 0);
		ck_assert_int_eq(setresuid(uid, uid, uid), 0); /* of this test's process */
	}
	g_fs.backing_fd = open(g_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(g_fs.backing_fd, 0);
	ck_assert_int_eq(fstat(g_fs.backing_fd, &st), 0);
	g_fs.backing_dev = st.st_dev;
	g_fs.private_fd = -1;
	g_fs.settings.block_size = 4096;
	ck_assert_int_eq(fs_inodes_new(&g_fs), 0);
}

static void setup(void)
{
	open_table(0);
}

/* Who is not root may not open by handle. */
static void setup_as_user(void)
{
	open_table(geteuid() == 0 ? 65534 : 0);
	ck_assert_ptr_null(fs_inode_get(&g_fs, FUSE_ROOT_ID)->handle);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void teardown(void)
{
	fs_inodes_free(&g_fs);
	close(g_fs.backing_fd);
	nftw(g_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_file(const char *name)
{
	int fd = openat(g_fs.backing_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

static const char *name_of(unsigned i)
{
	static char name[16];
	snprintf(name, sizeof(name), "f%u", i);
	return name;
}

static struct fs_inode *lookup(const char *name)
{
	struct fs_inode *inode = NULL;
	ck_assert_int_eq(fs_name_lookup(&g_fs, g_fs.backing_fd, name, &inode), 0);
	return inode;
}

static uint64_t ino_by_fd(struct fs_inode *inode)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	struct stat st;

	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), 0);
	ck_assert_int_eq(fstat(fd.fd, &st), 0);
	return st.st_ino;
}

/* ---- counts ---- */

START_TEST(the_root_is_node_one_and_never_forgotten)
{
	struct fs_inode *root = fs_inode_get(&g_fs, FUSE_ROOT_ID);
	ck_assert_ptr_nonnull(root);
	fs_inode_forget(&g_fs, root, 1000);
	ck_assert_ptr_eq(fs_inode_get(&g_fs, FUSE_ROOT_ID), root);
	ck_assert_ptr_eq(lookup("."), root);
	ck_assert_uint_eq(ino_by_fd(root), root->ino);
}
END_TEST

START_TEST(two_lookups_find_one_inode_that_two_forgets_remove)
{
	make_file("a");
	struct fs_inode *inode = lookup("a");
	ck_assert_ptr_eq(lookup("a"), inode);
	ck_assert_uint_eq(inode->nodeid, inode->ino);
	uint64_t nodeid = inode->nodeid;
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_ptr_eq(fs_inode_get(&g_fs, nodeid), inode);
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_ptr_null(fs_inode_get(&g_fs, nodeid));
	ck_assert_uint_eq(fs_inodes_count(&g_fs), 1);
}
END_TEST

START_TEST(two_names_of_one_file_are_one_inode)
{
	make_file("a");
	ck_assert_int_eq(linkat(g_fs.backing_fd, "a", g_fs.backing_fd, "b", 0), 0);
	ck_assert_ptr_eq(lookup("a"), lookup("b"));
}
END_TEST

START_TEST(a_held_inode_outlives_the_kernels_forget)
{
	make_file("a");
	struct fs_inode *inode = lookup("a");
	uint64_t nodeid = inode->nodeid;
	fs_inode_hold(&g_fs, inode);
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_ptr_eq(fs_inode_get(&g_fs, nodeid), inode);
	fs_inode_unhold(&g_fs, inode);
	ck_assert_ptr_null(fs_inode_get(&g_fs, nodeid));
}
END_TEST

START_TEST(a_pinned_inode_outlives_the_kernels_forget)
{
	struct fs_fd fd = {0};
	struct stat st;

	make_file("a");
	struct fs_inode *inode = lookup("a");
	uint64_t nodeid = inode->nodeid;
	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), 0);
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_ptr_eq(fs_inode_get(&g_fs, nodeid), inode);
	ck_assert_int_eq(fstat(fd.fd, &st), 0);
	fs_fd_release(&fd);
	ck_assert_ptr_null(fs_inode_get(&g_fs, nodeid));
}
END_TEST

START_TEST(a_forget_of_too_many_is_no_underflow)
{
	make_file("a");
	fs_inode_forget(&g_fs, lookup("a"), UINT64_MAX);
	ck_assert_uint_eq(fs_inodes_count(&g_fs), 1);
}
END_TEST

static void count_visit(struct fs_inode *inode, void *context)
{
	ck_assert_uint_ge(inode->holds, 1);
	++*(unsigned *)context;
}

START_TEST(five_thousand_inodes_are_found_visited_and_forgotten)
{
	static struct fs_inode *all[5000];
	unsigned visited = 0;

	for (unsigned i = 0; i < 5000; i++) {
		make_file(name_of(i));
		all[i] = lookup(name_of(i));
	}
	for (unsigned i = 0; i < 5000; i++)
		ck_assert_ptr_eq(fs_inode_get(&g_fs, all[i]->nodeid), all[i]);
	fs_inodes_each(&g_fs, count_visit, &visited);
	ck_assert_uint_eq(visited, 5001);
	for (unsigned i = 0; i < 5000; i++)
		fs_inode_forget(&g_fs, all[i], 1);
	ck_assert_uint_eq(fs_inodes_count(&g_fs), 1);
	ck_assert_uint_eq(fs_inodes_fds(&g_fs), 1);
}
END_TEST

/* ---- descriptors ---- */

START_TEST(descriptors_stay_within_the_limit_and_come_back_by_handle)
{
	struct fs_inode *all[100];

	fs_inodes_set_fd_limit(&g_fs, 8);
	for (unsigned i = 0; i < 100; i++) {
		make_file(name_of(i));
		all[i] = lookup(name_of(i));
		ck_assert_uint_le(fs_inodes_fds(&g_fs), 8);
	}
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_uint_eq(ino_by_fd(all[i]), all[i]->ino);
		ck_assert_uint_le(fs_inodes_fds(&g_fs), 8);
	}
}
END_TEST

START_TEST(a_pinned_descriptor_is_not_closed)
{
	struct fs_fd fd[4];
	struct stat st;

	for (unsigned i = 0; i < 4; i++) {
		make_file(name_of(i));
		ck_assert_int_eq(fs_inode_fd(&g_fs, lookup(name_of(i)), &fd[i]), 0);
	}
	fs_inodes_set_fd_limit(&g_fs, 0);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(fstat(fd[i].fd, &st), 0);
		ck_assert_uint_eq(st.st_ino, fd[i].inode->ino);
	}
	for (unsigned i = 0; i < 4; i++)
		fs_fd_release(&fd[i]);
	ck_assert_uint_eq(fs_inodes_fds(&g_fs), 1); /* the root's */
}
END_TEST

START_TEST(a_file_can_be_reopened_for_reading_and_writing)
{
	make_file("a");
	struct fs_inode *inode = lookup("a");
	fs_inodes_set_fd_limit(&g_fs, 0);
	int fd = fs_inode_reopen(&g_fs, inode, O_RDWR | O_NOFOLLOW);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "x", 1), 1);
	close(fd);
}
END_TEST

START_TEST(a_symbolic_link_is_pinned_itself_and_not_opened)
{
	char target[16];
	_cleanup_fs_fd_ struct fs_fd fd = {0};

	ck_assert_int_eq(symlinkat("nowhere", g_fs.backing_fd, "s"), 0);
	struct fs_inode *inode = lookup("s");
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), 0);
	ck_assert_int_eq(readlinkat(fd.fd, "", target, sizeof(target)), 7);
	ck_assert_int_eq(fs_inode_reopen(&g_fs, inode, O_RDONLY), -ELOOP);
}
END_TEST

/* ---- descriptors without handles ---- */

static void make_dir(const char *name)
{
	ck_assert_int_eq(mkdirat(g_fs.backing_fd, name, 0755), 0);
}

/* Looks up each part of @path, as the kernel does. */
static struct fs_inode *lookup_path(const char *path)
{
	char part[256];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		lookup(part);
	}
	return lookup(path);
}

START_TEST(without_handles_descriptors_stay_within_the_limit_too)
{
	struct fs_inode *all[100];
	char path[64];

	fs_inodes_set_fd_limit(&g_fs, 8);
	make_dir("d");
	make_dir("d/e");
	for (unsigned i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "%s%s", i % 3 ? "d/e/" : "", name_of(i));
		make_file(path);
		all[i] = lookup_path(path);
		ck_assert_uint_le(fs_inodes_fds(&g_fs), 8);
	}
	for (unsigned i = 0; i < 100; i++) {
		ck_assert_uint_eq(ino_by_fd(all[i]), all[i]->ino);
		ck_assert_uint_le(fs_inodes_fds(&g_fs), 8);
	}
	for (unsigned i = 0; i < 100; i++)
		fs_inode_forget(&g_fs, all[i], 1);
	fs_inode_forget(&g_fs, lookup("d/e"), 1000);
	fs_inode_forget(&g_fs, lookup("d"), 1000);
	ck_assert_uint_eq(fs_inodes_count(&g_fs), 1);
	ck_assert_uint_eq(fs_inodes_fds(&g_fs), 1);
}
END_TEST

START_TEST(a_closed_file_is_found_after_its_directory_was_renamed)
{
	make_dir("d");
	make_dir("d/e");
	make_file("d/e/a");
	struct fs_inode *inode = lookup_path("d/e/a");
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert_int_lt(inode->fd, 0);
	struct fs_inode *dir = lookup("d/e");
	_cleanup_fs_fd_ struct fs_fd pinned = {0};
	ck_assert_int_eq(fs_inode_fd(&g_fs, dir, &pinned),
			 0); /* as names.c does before it renames */
	ck_assert_int_eq(renameat(g_fs.backing_fd, "d/e", g_fs.backing_fd, "f"), 0);
	ck_assert_uint_eq(ino_by_fd(inode), inode->ino);
	ck_assert_uint_eq(ino_by_fd(dir), dir->ino);
}
END_TEST

START_TEST(a_lookup_gives_a_closed_file_its_descriptor_back)
{
	make_file("a");
	struct fs_inode *inode = lookup("a");
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert_int_lt(inode->fd, 0);
	fs_inodes_set_fd_limit(&g_fs, 8);
	ck_assert_ptr_eq(lookup("a"), inode);
	ck_assert_int_eq(renameat(g_fs.backing_fd, "a", g_fs.backing_fd, "b"), 0);
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert_int_lt(inode->fd, 0);
	ck_assert_uint_eq(ino_by_fd(inode), inode->ino);
}
END_TEST

START_TEST(another_file_under_a_closed_ones_name_is_stale)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};

	make_file("a");
	struct fs_inode *inode = lookup("a");
	fs_inodes_set_fd_limit(&g_fs, 0);
	make_file("b");
	ck_assert_int_eq(renameat(g_fs.backing_fd, "b", g_fs.backing_fd, "a"), 0);
	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), -ESTALE);
}
END_TEST

START_TEST(a_file_whose_name_is_gone_is_not_closed)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};

	make_file("a");
	struct fs_inode *inode = lookup("a");
	ck_assert_int_eq(unlinkat(g_fs.backing_fd, "a", 0), 0);
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), 0);
}
END_TEST

/* ---- numbers ---- */

static bool number_is_used_again(uint64_t ino)
{
	struct stat st;
	bool again = false;

	for (unsigned i = 0; i < 300; i++) {
		make_file(name_of(i));
		ck_assert_int_eq(fstatat(g_fs.backing_fd, name_of(i), &st, 0), 0);
		again |= st.st_ino == ino;
	}
	return again;
}

START_TEST(an_unlinked_inode_keeps_its_number_until_forgotten)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};

	make_file("a");
	struct fs_inode *inode = lookup("a");
	uint64_t ino = inode->ino;
	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), 0);
	ck_assert_int_eq(unlinkat(g_fs.backing_fd, "a", 0), 0);
	fs_inode_keep_fd(&g_fs, inode);
	fs_fd_release(&fd);
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert(!number_is_used_again(ino));
	ck_assert_uint_eq(ino_by_fd(inode), ino);
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_uint_eq(fs_inodes_fds(&g_fs), 1);
}
END_TEST

START_TEST(without_a_kept_descriptor_the_file_is_gone)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};

	make_file("a");
	struct fs_inode *inode = lookup("a");
	fs_inodes_set_fd_limit(&g_fs, 0);
	ck_assert_int_eq(unlinkat(g_fs.backing_fd, "a", 0), 0);
	ck_assert_int_eq(fs_inode_fd(&g_fs, inode, &fd), -ESTALE);
}
END_TEST

/* Looks up @name as if it had the number of @other: what the kernel sees when a number is used
 * again. */
static struct fs_inode *lookup_with_number_of(const char *name, const struct fs_inode *other)
{
	int fd = openat(g_fs.backing_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct fs_inode *inode = NULL;
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	st.st_ino = other->ino;
	ck_assert_int_eq(fs_inode_lookup(&g_fs, fd, &st, &inode), 0);
	return inode;
}

START_TEST(a_newcomer_with_a_known_number_takes_its_place_and_counts)
{
	make_file("a");
	make_file("b");
	struct fs_inode *old = lookup("a");
	struct fs_inode *fresh = lookup_with_number_of("b", old);
	uint64_t nodeid = fresh->nodeid;
	ck_assert_ptr_ne(fresh, old);
	ck_assert_uint_eq(fresh->nodeid, old->nodeid);
	ck_assert_uint_ne(fresh->generation, old->generation);
	ck_assert_ptr_eq(fs_inode_get(&g_fs, nodeid), fresh);
	fs_inode_forget(&g_fs, fresh, 1);
	ck_assert_ptr_eq(fs_inode_get(&g_fs, nodeid), fresh);
	fs_inode_forget(&g_fs, fresh, 1);
	ck_assert_ptr_null(fs_inode_get(&g_fs, nodeid));
}
END_TEST

START_TEST(a_replaced_inode_that_is_held_outlives_its_successor)
{
	make_file("a");
	make_file("b");
	struct fs_inode *old = lookup("a");
	fs_inode_hold(&g_fs, old);
	uint64_t ino = old->ino;
	struct fs_inode *fresh = lookup_with_number_of("b", old);
	fs_inode_forget(&g_fs, fresh, 2);
	ck_assert_uint_eq(ino_by_fd(old), ino);
	fs_inode_unhold(&g_fs, old);
	ck_assert_uint_eq(fs_inodes_fds(&g_fs), 1);
}
END_TEST

/* ---- node ids from before ---- */

START_TEST(a_forgotten_inode_is_revived_with_its_generation)
{
	struct fs_inode *inode, *again = NULL;

	make_file("a");
	inode = lookup("a");
	uint64_t nodeid = inode->nodeid, generation = inode->generation;
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_int_eq(fs_inode_revive(&g_fs, nodeid, &again), 0);
	ck_assert_uint_eq(again->nodeid, nodeid);
	ck_assert_uint_eq(again->generation, generation);
}
END_TEST

START_TEST(a_directory_inside_is_revived_and_one_outside_is_stale)
{
	struct fs_inode *inode, *again = NULL;
	struct stat st;

	ck_assert_int_eq(mkdirat(g_fs.backing_fd, "d", 0755), 0);
	ck_assert_int_eq(mkdirat(g_fs.backing_fd, "d/e", 0755), 0);
	inode = lookup("d/e");
	uint64_t nodeid = inode->nodeid;
	fs_inode_forget(&g_fs, inode, 1);
	ck_assert_int_eq(fs_inode_revive(&g_fs, nodeid, &again), 0);
	ck_assert_int_eq(fstatat(g_fs.backing_fd, "..", &st, 0), 0);
	ck_assert_int_eq(fs_inode_revive(&g_fs, st.st_ino, &again), -ESTALE);
}
END_TEST

START_TEST(a_number_that_is_no_file_is_stale)
{
	struct fs_inode *inode = NULL;

	make_file("a");
	uint64_t nodeid = lookup("a")->nodeid;
	fs_inode_forget(&g_fs, fs_inode_get(&g_fs, nodeid), 1);
	ck_assert_int_eq(unlinkat(g_fs.backing_fd, "a", 0), 0);
	ck_assert_int_eq(fs_inode_revive(&g_fs, nodeid, &inode), -ESTALE);
	ck_assert_int_eq(fs_inode_revive(&g_fs, UINT64_MAX, &inode), -ESTALE);
	ck_assert_int_eq(fs_inode_revive(&g_fs, 0, &inode), -ESTALE);
}
END_TEST

START_TEST(the_private_directory_and_its_files_are_never_revived)
{
	struct fs_inode *inode = NULL;
	struct stat st;

	ck_assert_int_eq(mkdirat(g_fs.backing_fd, FS_PRIVATE_DIR, 0700), 0);
	make_file(FS_PRIVATE_DIR "/quota.db");
	g_fs.private_fd = openat(g_fs.backing_fd, FS_PRIVATE_DIR, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(fstat(g_fs.private_fd, &st), 0);
	ck_assert_int_eq(fs_inode_revive(&g_fs, st.st_ino, &inode), -ESTALE);
	ck_assert_int_eq(fstatat(g_fs.private_fd, "quota.db", &st, 0), 0);
	ck_assert_int_eq(fs_inode_revive(&g_fs, st.st_ino, &inode), -ESTALE);
	close(g_fs.private_fd);
}
END_TEST

/* ---- many at once ---- */

static void *churn(void *context)
{
	unsigned seed = (unsigned)(uintptr_t)context;

	for (unsigned i = 0; i < 5000; i++) {
		char name[16];
		struct fs_inode *inode = NULL;
		struct fs_fd fd = {0};
		struct stat st;

		snprintf(name, sizeof(name), "f%u", (unsigned)rand_r(&seed) % 32);
		if (fs_name_lookup(&g_fs, g_fs.backing_fd, name, &inode) < 0)
			return "lookup";
		if (fs_inode_fd(&g_fs, inode, &fd) < 0)
			return "fd";
		if (fstat(fd.fd, &st) < 0 || st.st_ino != inode->ino)
			return "another file's descriptor";
		fs_fd_release(&fd);
		fs_inode_forget(&g_fs, inode, 1);
	}
	return NULL;
}

START_TEST(threads_that_look_up_pin_and_forget_leave_nothing_behind)
{
	pthread_t thread[4];

	for (unsigned i = 0; i < 32; i++)
		make_file(name_of(i));
	fs_inodes_set_fd_limit(&g_fs, 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(
			pthread_create(&thread[i], NULL, churn, (void *)(uintptr_t)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++) {
		void *failed;
		pthread_join(thread[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_uint_eq(fs_inodes_count(&g_fs), 1);
	ck_assert_uint_eq(fs_inodes_fds(&g_fs), 1);
}
END_TEST

/* What kind of handles the file system of /tmp gives us: the length of one, 0 without. */
static unsigned handle_bytes(void)
{
	struct fs fs = {.backing_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			.private_fd = -1};
	unsigned bytes = 0;

	if (fs.backing_fd < 0 || fs_inodes_new(&fs) < 0)
		return 0;
	struct fs_inode *root = fs_inode_get(&fs, FUSE_ROOT_ID);
	if (root->handle)
		bytes = root->handle->handle_bytes;
	fs_inodes_free(&fs);
	close(fs.backing_fd);
	return bytes;
}

static void add_user_cases(Suite *suite)
{
	TCase *tcase = tcase_create("fs_inode_fd by name");

	tcase_add_checked_fixture(tcase, setup_as_user, teardown);
	suite_add_tcase(suite, tcase);
	tcase_add_test(tcase, without_handles_descriptors_stay_within_the_limit_too);
	tcase_add_test(tcase, a_closed_file_is_found_after_its_directory_was_renamed);
	tcase_add_test(tcase, a_lookup_gives_a_closed_file_its_descriptor_back);
	tcase_add_test(tcase, another_file_under_a_closed_ones_name_is_stale);
	tcase_add_test(tcase, a_file_whose_name_is_gone_is_not_closed);
	tcase_add_test(tcase, threads_that_look_up_pin_and_forget_leave_nothing_behind);
}

static TCase *add_case(Suite *suite, const char *name)
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	return tcase;
}

static void add_handle_cases(Suite *suite)
{
	TCase *fd = add_case(suite, "fs_inode_fd by handle");
	tcase_add_test(fd, descriptors_stay_within_the_limit_and_come_back_by_handle);
	tcase_add_test(fd, a_pinned_descriptor_is_not_closed);
	tcase_add_test(fd, a_symbolic_link_is_pinned_itself_and_not_opened);
	tcase_add_test(fd, an_unlinked_inode_keeps_its_number_until_forgotten);
	tcase_add_test(fd, without_a_kept_descriptor_the_file_is_gone);
	TCase *number = add_case(suite, "fs_inode_lookup of a number used again");
	tcase_add_test(number, a_newcomer_with_a_known_number_takes_its_place_and_counts);
	tcase_add_test(number, a_replaced_inode_that_is_held_outlives_its_successor);
}

static void add_revive_cases(Suite *suite)
{
	TCase *revive = add_case(suite, "fs_inode_revive");
	tcase_add_test(revive, a_forgotten_inode_is_revived_with_its_generation);
	tcase_add_test(revive, a_directory_inside_is_revived_and_one_outside_is_stale);
	tcase_add_test(revive, a_number_that_is_no_file_is_stale);
	tcase_add_test(revive, the_private_directory_and_its_files_are_never_revived);
}

int main(void)
{
	Suite *suite = suite_create("fusefs");
	TCase *lookup_case = add_case(suite, "fs_inode_lookup");
	tcase_add_test(lookup_case, the_root_is_node_one_and_never_forgotten);
	tcase_add_test(lookup_case, two_lookups_find_one_inode_that_two_forgets_remove);
	tcase_add_test(lookup_case, two_names_of_one_file_are_one_inode);
	tcase_add_test(lookup_case, a_held_inode_outlives_the_kernels_forget);
	tcase_add_test(lookup_case, a_pinned_inode_outlives_the_kernels_forget);
	tcase_add_test(lookup_case, a_forget_of_too_many_is_no_underflow);
	tcase_add_test(lookup_case, five_thousand_inodes_are_found_visited_and_forgotten);
	tcase_add_test(lookup_case, a_file_can_be_reopened_for_reading_and_writing);
	tcase_add_test(lookup_case, threads_that_look_up_pin_and_forget_leave_nothing_behind);
	add_user_cases(suite);
	unsigned bytes = handle_bytes();
	if (bytes > 0)
		add_handle_cases(suite);
	else
		fprintf(stderr,
			"# left out: what needs file handles (not root, or /tmp has none)\n");
	if (bytes == 2 * sizeof(uint32_t))
		add_revive_cases(suite);
	else
		fprintf(stderr,
			"# left out: what needs handles of number and generation, as ext4's\n");

	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0;
}
