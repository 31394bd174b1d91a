#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 300
# A program that ignores EDQUOT is slow on a mount that walks the page list, and fast on one that does not.
. "$(dirname "$0")/../lib/lib.sh"

uid=1000
kib=$((1 << 20)) # its limit: 1 GiB, so that 262144 pages are resident when it is reached
seconds=20
if [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -lt 4000000 ]; then
	kib=$((256 << 10))
	note "less than 4 GB of memory to spare: 256 MiB instead of 1 GiB"
fi
pages=$((kib / 4))

compile "$CHOKE_ROOT/tests/behaviour/seed_writer.c" "$CHOKE_TMP/seed_writer"

# Runs the writer against its limit in mode $1; sets accepted and refused to its rates.
run_writer()
{
	# Accepted writes are to run at the speed of memory: what the disk can do is not the question.
	mount_choke -o "rollback=$1,cache_bytes=$((kib * 2))K,dirty_bytes=$((kib * 2 - 8192))K,dirty_background_bytes=$((kib * 3 / 2))K,dirty_expire_centisecs=60000"
	setquota_kib $uid 0 $kib
	stat_reset
	as_uid $uid "$CHOKE_TMP/seed_writer" "$MNT/victim" $seconds >"$CHOKE_TMP/rates" 2>"$CHOKE_TMP/said"
	sed -n "1,6s/^/# $1: /p" "$CHOKE_TMP/rates"
	# Of a machine that is shared: the best of the few lines before the limit, the middle of the many after it.
	accepted=$(awk '$3 == 0 && $5 > best { best = $5 } END { printf "%.0f", best }' "$CHOKE_TMP/rates")
	refused=$(awk '$3 == $1 { print $5 }' "$CHOKE_TMP/rates" | sort -n | awk '{ v[NR] = $1 } END { printf "%.0f", v[int((NR + 1) / 2)] }')
	note "$1: $accepted writes/s accepted, $refused writes/s refused"
	grep -q "Disk quota exceeded" "$CHOKE_TMP/said" || fail "the writer never met its limit"
	expect_eq "$(usage_of $uid)" $((kib * 1024)) "usage"
	expect_eq "$(stat -c %s "$MNT/victim")" $((kib * 1024)) "size of the file"
}

# What was written is of no use to anybody, so it is not written back.
end_mount()
{
	rm "$MNT/victim"
	umount_choke
}

begin "rollback=list visits every resident page for each refused write, and frees none"
run_writer list
count=$(stat_json rollback.count)
expect_num "$count" -gt 0 "rollbacks"
expect_num "$(stat_json quota.refused_blocks)" -ge "$count" "refusals"
expect_eq "$(stat_json rollback.pages_visited)" $((count * pages)) "pages visited by $count rollbacks"
expect_eq "$(stat_json rollback.pages_freed)" 0 "pages freed"
expect_eq "$(stat_json rollback.by_list)" "$count" "walks by list"
list_held=$(($(stat_json rollback.lock_held_ns) / count))
list_refused=$refused
end_mount

begin "rollback=bounded visits at most four times the pages of the refused range, and one"
run_writer bounded
count=$(stat_json rollback.count)
expect_num "$count" -gt 0 "rollbacks"
expect_num "$(stat_json rollback.pages_visited)" -le $((count * (4 * 128 + 1))) "pages visited by $count rollbacks"
expect_eq "$(stat_json rollback.by_list)" 0 "walks by list"

begin "a refused write holds the file's lock at least 20 times longer in list than in bounded"
held=$(($(stat_json rollback.lock_held_ns) / count))
note "held for $list_held ns in list, $held ns in bounded; $list_refused and $refused refused writes/s"
expect_num "$list_held" -gt $((held * 20)) "time held in list"
expect_num "$refused" -gt "$list_refused" "rate of refused writes against that of list"
end_mount

begin "rollback=reserve undoes nothing at all"
run_writer reserve
expect_eq "$(stat_json rollback.count)" 0 "rollbacks"
expect_eq "$(stat_json rollback.pages_visited)" 0 "pages visited"
expect_num "$(stat_json quota.refused_blocks)" -gt 0 "refusals"
expect_no_drift
end_mount
