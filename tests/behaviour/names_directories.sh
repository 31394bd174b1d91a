#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A directory of many entries is listed whole while it changes, and costs the daemon a bounded number of descriptors.
. "$(dirname "$0")/../lib/lib.sh"

large_directory()
{
	begin "$FS: survivors are listed once while others come and go, and positions stay good"
	mkdir "$DIR/many"
	expect_rc 0 python3 "$CHOKE_ROOT/tests/behaviour/names_directories.py" "$DIR/many" 10000
}
for_each_fs large_directory

descriptors() { ls "/proc/$DAEMON/fd" | wc -l; }

mount_choke
begin "ten thousand files that are known need no more than 4096 descriptors, and some"
(cd "$MNT" && seq -f f%.0f 10000 | xargs touch)
expect_eq "$(ls -l "$MNT" | grep -c ' f[0-9]*$')" 10000
expect_num "$(descriptors)" -le 4200 "descriptors"

begin "none of them is lost by that"
expect_rc 0 find "$MNT" -type f -exec chmod 600 {} +
expect_eq "$(find "$MNT" -type f -perm 600 | wc -l)" 10000
rm -r "${MNT:?}"/f*
expect_no_drift

begin "the daemon's own directory is hidden and cannot be made, entered or replaced"
mkdir "$MNT/d"
expect_eq "$(ls -A "$MNT")" d
expect_eq "$(stat -c %h "$MNT")" 3
expect_err "No such file" stat "$MNT/.chokefs"
expect_err "No such file" rmdir "$MNT/.chokefs"
expect_err "not permitted" mkdir "$MNT/.chokefs"
expect_err "not permitted" mv -T "$MNT/d" "$MNT/.chokefs"
expect_rc 0 mkdir "$MNT/d/.chokefs"
umount_choke
