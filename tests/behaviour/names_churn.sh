#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# Four processes fight over the same names: no strange error, and the mount shows what the backing holds.
. "$(dirname "$0")/../lib/lib.sh"

tree()
{
	find "$1" -mindepth 1 -name .chokefs -prune -o \
		-printf '%P %i links=%n %m %U %G %y %s %T@ %l\n' | sort
}

begin "names made, linked, renamed and removed at once give no unexpected error"
mount_choke
workers=
for seed in 1 2 3 4; do
	python3 "$CHOKE_ROOT/tests/behaviour/names_churn.py" "$MNT" $seed 8 2>"$CHOKE_TMP/err$seed" &
	workers="$workers $!"
done
for worker in $workers; do
	wait "$worker" || fail "$(cat "$CHOKE_TMP"/err*)"
done

begin "what the kernel remembers is what the backing holds"
tree "$MNT" >"$CHOKE_TMP/mount.txt"
tree "$BACKING" >"$CHOKE_TMP/backing.txt"
expect_num "$(wc -l <"$CHOKE_TMP/mount.txt")" -ge 4
expect_rc 0 diff "$CHOKE_TMP/mount.txt" "$CHOKE_TMP/backing.txt"
echo 2 >/proc/sys/vm/drop_caches
tree "$MNT" >"$CHOKE_TMP/mount.txt"
expect_rc 0 diff "$CHOKE_TMP/mount.txt" "$CHOKE_TMP/backing.txt"

begin "every inode made is charged once and every one removed given back"
expect_no_drift
rm -r "${MNT:?}"/*
expect_no_drift
umount_choke
