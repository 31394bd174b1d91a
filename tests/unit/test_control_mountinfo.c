/* SPDX-License-Identifier: MIT */
/* Mounts are found in the kernel's table: escapes, stacked mounts, lines that are none. */
#include "control/private.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

static const char table[] =
	"22 27 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
	"36 35 98:0 /mnt1 /mnt/two\\040words rw,noatime master:1 - ext4 /dev/root "
	"rw,errors=continue\n"
	"40 35 0:50 / /srv/choke rw,nosuid - fuse.chokefs /back\\134slash\\011tab "
	"rw,user_id=1000,group_id=0\n"
	"41 35 0:51 / /stack rw - tmpfs tmpfs rw\n"
	"42 41 0:52 / /stack rw shared:3 master:4 propagate_from:2 - fuse.chokefs /b rw,user_id=0\n"
	"not a line\n"
	"43 35 0:53 / /short\n"
	"44 35 x:y / /nodev rw - ext4 /dev/x rw\n";

static int find(const char *path, struct control_mount *ret_mount, char **ret_fstype)
{
	FILE *file = fmemopen((void *)table, sizeof(table) - 1, "r");
	int r = control_mountinfo_find(file, path, ret_mount, ret_fstype);
	fclose(file);
	return r;
}

START_TEST(octal_escapes_are_read_as_bytes)
{
	struct control_mount mount;
	char *fstype;
	ck_assert_int_eq(find("/mnt/two words", &mount, &fstype), 0);
	ck_assert_str_eq(fstype, "ext4");
	ck_assert_str_eq(mount.mountpoint, "/mnt/two words");
	ck_assert(mount.dev == makedev(98, 0));
	control_mount_fini(&mount);
	free(fstype);
	ck_assert_int_eq(find("/srv/choke", &mount, &fstype), 0);
	ck_assert_str_eq(mount.source, "/back\\slash\ttab");
	control_mount_fini(&mount);
	free(fstype);
}
END_TEST

START_TEST(the_mounter_is_read_from_the_super_options)
{
	struct control_mount mount;
	char *fstype;
	ck_assert_int_eq(find("/srv/choke", &mount, &fstype), 0);
	ck_assert_uint_eq(mount.owner, 1000);
	control_mount_fini(&mount);
	free(fstype);
}
END_TEST

START_TEST(of_stacked_mounts_the_last_counts)
{
	struct control_mount mount;
	char *fstype;
	ck_assert_int_eq(find("/stack", &mount, &fstype), 0);
	ck_assert_str_eq(fstype, "fuse.chokefs");
	ck_assert(mount.dev == makedev(0, 52));
	control_mount_fini(&mount);
	free(fstype);
}
END_TEST

START_TEST(lines_that_are_none_are_passed_over)
{
	static const char *const absent[] = { "/short", "/nodev", "/sta", "/stack/", "/", "line" };
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		struct control_mount mount = { 0 };
		char *fstype = NULL;
		ck_assert_int_eq(find(absent[i], &mount, &fstype), -ENOENT);
		ck_assert_ptr_null(mount.mountpoint);
		ck_assert_ptr_null(fstype);
	}
}
END_TEST

START_TEST(a_device_number_finds_its_mount)
{
	struct control_mount mount;
	char *fstype;
	FILE *file = fmemopen((void *)table, sizeof(table) - 1, "r");
	ck_assert_int_eq(control_mountinfo_find_dev(file, makedev(0, 50), &mount, &fstype), 0);
	fclose(file);
	ck_assert_str_eq(mount.mountpoint, "/srv/choke");
	control_mount_fini(&mount);
	free(fstype);
}
END_TEST

START_TEST(find_mount_tells_nothing_from_another_file_system)
{
	struct control_mount mount = { 0 };
	ck_assert_int_eq(control_find_mount("/proc", &mount), -EMEDIUMTYPE);
	ck_assert_int_eq(control_find_mount("/proc/", &mount), -EMEDIUMTYPE);
	ck_assert_int_eq(control_find_mount("/proc/self", &mount), -ENOENT);
	ck_assert_int_eq(control_find_mount("/no/such/place", &mount), -ENOENT);
	ck_assert_int_eq(control_find_mount("", &mount), -ENOENT);
	ck_assert_int_eq(control_find_mount("/", &mount), -EMEDIUMTYPE);
	ck_assert_ptr_null(mount.mountpoint);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("control");
	TCase *tcase = tcase_create("mountinfo");
	tcase_add_test(tcase, octal_escapes_are_read_as_bytes);
	tcase_add_test(tcase, the_mounter_is_read_from_the_super_options);
	tcase_add_test(tcase, of_stacked_mounts_the_last_counts);
	tcase_add_test(tcase, lines_that_are_none_are_passed_over);
	tcase_add_test(tcase, a_device_number_finds_its_mount);
	tcase_add_test(tcase, find_mount_tells_nothing_from_another_file_system);
	suite_add_tcase(suite, tcase);
	SRunner *runner = srunner_create(suite);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
