#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
# A file keeps its node id and generation for life, so NFS handles survive; no other file ever gets them.
. "$(dirname "$0")/../lib/lib.sh"

handles() { python3 "$CHOKE_ROOT/tests/behaviour/names_handles.py" "$1" "$MNT" "$CHOKE_TMP/handles" "${@:2}"; }
numbers() { for path in "$@"; do echo "$path $(stat -c %i "$MNT/$path")"; done; }

mount_choke
mkdir -p "$MNT/a/b"
echo text >"$MNT/a/b/file"
ln -s nowhere "$MNT/a/link"
echo text >"$MNT/gone"
all="a a/b a/b/file a/link gone"
if [ "$(stat -f -c %T "$BACKING")" != ext2/ext3 ]; then
	begin "handles survive"
	skip "the scratch directory is on $(stat -f -c %T "$BACKING"), whose handles cannot be made up from a node id"
	exit 0
fi

begin "handles lead to their files"
handles take $all
expect_eq "$(handles open)" "$(numbers $all)"

begin "they still do when the kernel has forgotten the files"
echo 2 >/proc/sys/vm/drop_caches
expect_eq "$(handles open)" "$(numbers $all)"

begin "they still do after a remount"
want=$(numbers $all)
remount
expect_eq "$(handles open)" "$want"

begin "another generation of the same number is stale"
expect_eq "$(handles forge a/b/file)" "a/b/file ESTALE"

begin "the handle of a removed file is stale, whoever has its number now"
rm "$MNT/gone"
for i in $(seq 200); do echo x >"$MNT/a/new$i"; done
expect_eq "$(handles open | grep gone)" "gone ESTALE"
remount
expect_eq "$(handles open | grep gone)" "gone ESTALE"

begin "a removed file that is open keeps its number from being used again"
exec 7<"$MNT/a/b/file"
number=$(stat -c %i "$MNT/a/b/file")
rm "$MNT/a/b/file"
for i in $(seq 200); do echo x >"$MNT/a/more$i"; done
! find "$MNT" -inum "$number" | grep . || fail "inode $number was given away"
expect_eq "$(cat <&7)" text
exec 7<&-
umount_choke
