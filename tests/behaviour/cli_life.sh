#!/bin/bash
# SPDX-License-Identifier: MIT
# How a mount begins and ends: for the next daemon, for a dead one, for users, for those who look on.
. "$(dirname "$0")/../lib/lib.sh"

begin "when umount returns the daemon is gone, its socket too, and the backing can be served again at once"
mount_choke
socket=/run/chokefs/$(awk -v at="$MNT" '$5 == at { print $3 }' /proc/self/mountinfo).sock
[ -S "$socket" ] || fail "no socket at $socket"
"$CHOKEFS" umount "$MNT"
[ "$(cut -d ' ' -f 3 "/proc/$DAEMON/stat" 2>/dev/null || echo Z)" = Z ] || fail "process $DAEMON still runs"
[ ! -e "$socket" ] || fail "$socket is still there"
mount_again

begin "chokefs umount of a busy mount is refused, and what is open stays usable"
exec 3>"$MNT/open"
expect_rc 1 "$CHOKEFS" umount "$MNT"
[[ $OUT == "chokefs: $MNT: busy"* ]] || fail "$OUT"
echo still >&3
exec 3>&-
expect_eq "$(cat "$MNT/open")" still

begin "a daemon that still writes after umount(8) is waited for by the next one"
tune device=rate=4M
dd if=/dev/zero of="$MNT/slow" bs=1M count=6 status=none
old=$DAEMON
umount "$MNT"
[ -d "/proc/$old" ] || fail "the daemon was gone at once: nothing was left to wait for"
mount_again
[ "$(cut -d ' ' -f 3 "/proc/$old/stat" 2>/dev/null || echo Z)" = Z ] || fail "two daemons serve one backing"
expect_eq "$(stat -c %s "$MNT/slow")" $((6 << 20)) "size"
cmp -n $((6 << 20)) "$MNT/slow" /dev/zero || fail "the data differ"

begin "the mount of a dead daemon is told of and taken away"
kill -KILL "$DAEMON"
wait_until 20 daemon_is_gone
expect_rc 1 "$CHOKEFS" stats "$MNT"
[[ $OUT == "chokefs: $MNT: no answer"* ]] || fail "$OUT"
expect_rc 1 "$CHOKEFS" umount "$MNT"
! mountpoint -q "$MNT" || fail "still mounted"
mount_again
expect_no_drift
umount_choke

begin "a signal ends a mount that is in use, and what was written is on the backing"
mount_again
exec 3>"$MNT/held"
echo kept >&3
kill -TERM "$DAEMON"
wait_until 30 daemon_is_gone
exec 3>&- || true
expect_eq "$(cat "$BACKING/held")" kept
! mountpoint -q "$MNT" || fail "still mounted"

begin "a mount that fails leaves neither a mount, a daemon nor a scratch directory"
mkdir "$CHOKE_TMP/tmp" "$CHOKE_TMP/scratch"
# The mount point is busy only once the first is there.
TMPDIR=$CHOKE_TMP/tmp "$CHOKEFS" mount --scratch "$CHOKE_TMP/scratch"
expect_eq "$(ls "$CHOKE_TMP/tmp" | wc -l)" 1 "scratch directories"
TMPDIR=$CHOKE_TMP/tmp expect_rc 1 "$CHOKEFS" mount --scratch "$CHOKE_TMP/scratch"
expect_eq "$(ls "$CHOKE_TMP/tmp" | wc -l)" 1 "scratch directories after a refused mount"
"$CHOKEFS" umount "$CHOKE_TMP/scratch"
expect_eq "$(ls "$CHOKE_TMP/tmp" | wc -l)" 0 "scratch directories after the end"

begin "top --once prints a frame"
mount_again
expect_rc 0 "$CHOKEFS" top --once "$MNT"
grep -q "^resident " <<<"$OUT" || fail "$OUT"

begin "other users may look, and change nothing"
expect_rc 0 as_uid 1000 "$CHOKEFS" stats "$MNT" --json
expect_rc 0 as_uid 1000 "$CHOKEFS" tune "$MNT" rollback
for command in "tune $MNT rollback=list" "stats $MNT --reset" "umount $MNT" "repquota $MNT" \
	"setquota -u 1000 0 0 0 0 $MNT" "setquota -u -t 1 1 $MNT" "quotacheck $MNT"; do
	expect_rc 1 as_uid 1000 "$CHOKEFS" $command
	[[ $OUT == "chokefs: $MNT: "*"only for root"* ]] || fail "$command: $OUT"
done
expect_eq "$(stat_json settings.rollback)" reserve
umount_choke
