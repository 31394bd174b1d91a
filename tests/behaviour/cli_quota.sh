#!/bin/bash
# SPDX-License-Identifier: MIT
# The quota commands print as quota-tools do, and answer nobody who may not ask.
. "$(dirname "$0")/../lib/lib.sh"

mount_choke

# columns TEXT: blanks squeezed, ends trimmed, so that widths may differ.
columns() { sed -E 's/[[:blank:]]+/ /g; s/^ //; s/ $//' <<<"$1"; }

begin "setquota takes KiB, suffixes, thousands of files, and #number"
"$CHOKEFS" setquota -u 1000 100 1M 1k 2k "$MNT"
"$CHOKEFS" setquota -u '#1001' 0 2G 0 0 "$MNT"
"$CHOKEFS" setquota -g 1000 0 3T 0 0 "$MNT"
expect_rc 0 "$CHOKEFS" repquota -n "$MNT"
grep -qE '^#1000 +-- +0 +100 +1024 +0 +1000 +2000 *$' <<<"$OUT" || fail "uid 1000: $OUT"
grep -qE '^#1001 +-- +0 +0 +2097152 +0 +0 +0 *$' <<<"$OUT" || fail "uid 1001: $OUT"
expect_rc 0 "$CHOKEFS" repquota -g -n "$MNT"
grep -qE '^#1000 +-- +0 +0 +3221225472 ' <<<"$OUT" || fail "gid 1000: $OUT"

begin "repquota has the head of repquota(8), and sizes with units with -s"
expect_rc 0 "$CHOKEFS" repquota -n -s "$MNT"
grep -qxF "*** Report for user quotas on device $BACKING" <<<"$OUT" || fail "$OUT"
grep -qxF "Block grace time: 7days; Inode grace time: 7days" <<<"$OUT" || fail "$OUT"
grep -qE '^#1000 +-- +0 +100K +1.0M' <<<"$OUT" || fail "$OUT"

begin "grace periods are set in seconds and in words"
"$CHOKEFS" setquota -u -t 86400 12hours "$MNT"
expect_rc 0 "$CHOKEFS" repquota "$MNT"
grep -qxF "Block grace time: 24:00; Inode grace time: 12:00" <<<"$OUT" || fail "$OUT"
"$CHOKEFS" setquota -u -t 7days 7days "$MNT"

begin "quota shows a user below the limits and exits 0"
as_uid 1000 dd if=/dev/zero of="$MNT/f" bs=4K count=10 status=none
expect_rc 0 as_uid 1000 "$CHOKEFS" quota "$MNT"
expect_eq "$(columns "$(tail -n 1 <<<"$OUT")")" "$BACKING 40 100 1024 1 1000 2000" "the line"
grep -q "(uid 1000)" <<<"$OUT" || fail "$OUT"

begin "above the soft limit there are a star, a plus, a time, and exit code 1"
as_uid 1000 dd if=/dev/zero of="$MNT/f" bs=4K count=30 status=none
expect_rc 1 as_uid 1000 "$CHOKEFS" quota "$MNT"
expect_eq "$(columns "$(tail -n 1 <<<"$OUT")")" "$BACKING 120* 100 1024 7days 1 1000 2000" "the line"
expect_rc 0 "$CHOKEFS" repquota -n "$MNT"
grep -qE '^#1000 +\+- +120 +100 +1024 +7days +1 ' <<<"$OUT" || fail "$OUT"

begin "days later there is less time, and then none"
tune clock_offset=+3d
expect_rc 1 "$CHOKEFS" quota -u 1000 "$MNT"
grep -q " 4days " <<<"$OUT" || fail "$OUT"
tune clock_offset=+8d
expect_rc 1 "$CHOKEFS" quota -u 1000 "$MNT"
grep -q " none " <<<"$OUT" || fail "$OUT"
tune clock_offset=0

begin "a user without limits is told so"
expect_rc 0 "$CHOKEFS" quota -u 4321 "$MNT"
grep -q "(uid 4321): none" <<<"$OUT" || fail "$OUT"

begin "one's own group may be asked after, others not"
expect_rc 0 as_uid 1000 "$CHOKEFS" quota -g 1000 "$MNT"
expect_rc 1 as_uid 1000 "$CHOKEFS" quota -g 1001 "$MNT"
[[ $OUT == "chokefs: "*"group 1001"* ]] || fail "$OUT"
umount_choke
