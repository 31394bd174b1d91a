#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 240
# What fsync promised is there after the daemon was killed in the middle of writing, and so are limits and usage.
. "$(dirname "$0")/../lib/lib.sh"

rounds=5
writer=$CHOKE_TMP/crash_writer
logs=$CHOKE_TMP/logs
mkdir "$logs"
chmod 1777 "$logs"
compile "$CHOKE_ROOT/tests/behaviour/crash_writer.c" "$writer"

begin "the judge finds a wrong word and a file that is too short"
truncate -s 8000 "$CHOKE_TMP/zeroes"
echo "0 1000 5" >"$CHOKE_TMP/zeroes.log"
expect_rc 1 "$writer" verify "$CHOKE_TMP/zeroes" "$CHOKE_TMP/zeroes.log"
expect_num "$(grep -c generation <<<"$OUT")" -gt 0 "words reported"
truncate -s 7992 "$CHOKE_TMP/zeroes"
echo "999 1 0" >"$CHOKE_TMP/zeroes.log"
expect_rc 1 "$writer" verify "$CHOKE_TMP/zeroes" "$CHOKE_TMP/zeroes.log"

# The mounts differ in how the daemon is busy when it dies.
options=(
	"dirty_expire_centisecs=3000"
	"device=rate=40M:latency=1ms,congestion=block,congestion_kb=2048"
	"device=rate=40M,completion=batch,congestion=skip,congestion_kb=2048"
	"rollback=list,cache_bytes=16M,dirty_expire_centisecs=20,dirty_writeback_centisecs=10"
	"rollback=bounded,completion=batch"
)
mount_choke -o "${options[0]}"
setquota_kib 1000 90000 100000 500 600
setquota_kib 1001 0 200000

# The writer died of the daemon's death, not of a complaint of its own.
writers_end()
{
	local pid
	for pid in "$@"; do
		wait "$pid" || fail "a writer failed: $(cat "$CHOKE_TMP"/said.*)"
	done
}

for round in $(seq 0 $((rounds - 1))); do
	begin "round $round (${options[round]}): every byte that an fsync covered is there after kill -9"
	pids=()
	for i in 0 1 2 3; do
		as_uid $((1000 + i % 2)) "$writer" write "$MNT/file.$round.$i" "$logs/$round.$i" $((round * 10000000)) \
			>"$CHOKE_TMP/said.$i" 2>&1 &
		pids+=($!)
	done
	sleep 0.$((RANDOM % 9 + 1))
	sleep $((RANDOM % 2))
	wait_until 30 test -s "$logs/$round.0"
	for pid in "${pids[@]}"; do
		kill -0 "$pid" || fail "a writer ended before the crash: $(cat "$CHOKE_TMP"/said.*)"
	done
	kill_daemon
	writers_end "${pids[@]}"
	mount_again -o "${options[(round + 1) % rounds]}"
	for i in 0 1 2 3; do
		expect_rc 0 "$writer" verify "$MNT/file.$round.$i" "$logs/$round.$i"
		note "$OUT"
	done

	begin "round $round: limits are as they were set, and usage is what the tree holds"
	expect_rc 0 "$CHOKEFS" repquota -u -n --json "$MNT"
	for number in 90000 100000 200000; do
		[[ $OUT == *"$((number * 1024))"* || $OUT == *"$number"* ]] || fail "the limit $number is gone: $OUT"
	done
	expect_no_drift
	expect_num "$(usage_of 1000)" -gt 0 "usage of uid 1000"
	expect_num "$(usage_of 1001)" -gt 0 "usage of uid 1001"
done
umount_choke

begin "a limit that setquota acknowledged an instant before the crash is there"
mount_again
setquota_kib 1002 0 4242
kill_daemon
mount_again
expect_rc 0 "$CHOKEFS" repquota -u -n --json "$MNT"
[[ $OUT == *$((4242 * 1024))* || $OUT == *4242* ]] || fail "the limit is gone: $OUT"
umount_choke

begin "what earlier rounds synced is still there after the later crashes"
mount_again
for log in "$logs"/*; do
	expect_rc 0 "$writer" verify "$MNT/file.$(basename "$log")" "$log"
done
umount_choke

begin "after a clean unmount nothing has drifted either"
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
