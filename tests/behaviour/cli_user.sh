#!/bin/bash
# SPDX-License-Identifier: MIT
# A user without any privilege mounts, tunes, sets limits and unmounts what is his.
. "$(dirname "$0")/../lib/user.sh"

begin "a user mounts a directory of his own"
expect_rc 0 as_user "$CHOKEFS" mount "$BACKING" "$MNT"
choke_find_daemon
expect_eq "$(stat -c %u "/proc/$DAEMON")" 1000 "the daemon's uid"
expect_rc 0 as_user sh -c "echo mine >$MNT/f && cat $MNT/f"
expect_eq "$OUT" mine

begin "he throws switches and sets limits, which hold for him"
expect_rc 0 as_user "$CHOKEFS" tune "$MNT" rollback=list
expect_rc 0 as_user "$CHOKEFS" setquota -u 1000 0 20 0 0 "$MNT"
expect_err "Disk quota exceeded" as_user dd if=/dev/zero of="$MNT/g" bs=4K count=10 status=none
expect_rc 0 as_user "$CHOKEFS" quotacheck "$MNT"

begin "root and he find the socket, which is his alone"
dir=/tmp/chokefs-1000
expect_eq "$(stat -c '%u %a' "$dir")" "1000 700" "owner and mode of $dir"
expect_rc 0 "$CHOKEFS" stats "$MNT" --json
expect_rc 0 "$CHOKEFS" tune "$MNT" rollback=reserve

begin "he unmounts it"
expect_rc 0 as_user "$CHOKEFS" umount "$MNT"
wait_until 20 daemon_is_gone
expect_eq "$(cat "$BACKING/f")" mine

begin "a directory of sockets that somebody else laid there is refused"
mkdir "$CHOKE_TMP/trap"
chown 1001 "$CHOKE_TMP/trap"
chmod 777 "$CHOKE_TMP/trap"
mkdir -m 777 "$CHOKE_TMP/trap/chokefs"
chown 1001 "$CHOKE_TMP/trap/chokefs"
expect_rc 1 as_uid 1000 env XDG_RUNTIME_DIR="$CHOKE_TMP/trap" "$CHOKEFS" mount "$BACKING" "$MNT"
[[ $OUT == "chokefs: control socket: "* ]] || fail "$OUT"
! mountpoint -q "$MNT" || fail "mounted all the same"

begin "a backing of somebody else is refused"
mkdir "$CHOKE_TMP/other"
expect_rc 1 as_user "$CHOKEFS" mount "$CHOKE_TMP/other" "$MNT"
[[ $OUT == *"Permission denied"* ]] || fail "$OUT"
