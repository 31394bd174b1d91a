#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 900
# Sixteen writers of four uids against their limits while the switches are thrown: only EDQUOT, every byte right.
. "$(dirname "$0")/../lib/lib.sh"

seconds=${CHOKE_SOAK_SECONDS:-20}
writer=$CHOKE_TMP/mixed_writer
compile "$CHOKE_ROOT/tests/stress/mixed_writer.c" "$writer"
mkdir "$CHOKE_TMP/models"
chmod 1777 "$CHOKE_TMP/models"

begin "the writer notices a byte that is not its own"
mkdir "$CHOKE_TMP/plain"
"$writer" "$CHOKE_TMP/plain" victim 60 1 "$CHOKE_TMP/models" 2>"$CHOKE_TMP/said" &
pid=$!
while kill -0 $pid 2>/dev/null; do
	printf 'a byte of somebody else' |
		dd of="$CHOKE_TMP/plain/victim.0" bs=1 seek=$((RANDOM * 8)) conv=notrunc status=none
done
! wait $pid || fail "it ended content"
expect_num "$(grep -c 'must be' "$CHOKE_TMP/said")" -eq 1 "complaints"
rm -f "$CHOKE_TMP"/models/*

random_of() { shift $((RANDOM % $#)) && echo "$1"; }

# Throws the switches at random, five times a second, until the file $1 exists. Fails if the mount does not answer.
throw_switches()
{
	local count=0
	while [ ! -e "$1" ]; do
		timeout 30 "$CHOKEFS" tune "$MNT" \
			"rollback=$(random_of list bounded ordered reserve)" "undo=$(random_of all keep)" \
			"congestion=$(random_of none skip block)" "completion=$(random_of stream batch)" >/dev/null ||
			return 1
		count=$((count + 1))
		sleep 0.2
	done
	echo "# switches were thrown $count times"
}

begin "$seconds s of 16 writers: no error but EDQUOT, no hang, every byte as written"
mount_choke -o "cache_bytes=64M,congestion_kb=2048,device=rate=200M:latency=1ms,restart_poll_ms=50"
for uid in 1000 1001 1002 1003; do
	setquota_kib $uid $((2000 + (uid - 1000) * 1000)) $((3000 + (uid - 1000) * 1000)) 0 7
done
throw_switches "$CHOKE_TMP/enough" &
tuner=$!
pids=()
seed=${CHOKE_SOAK_SEED:-$RANDOM}
note "seed $seed"
for i in $(seq 0 15); do
	as_uid $((1000 + i % 4)) "$writer" "$MNT" "w$i" "$seconds" $((seed + i)) "$CHOKE_TMP/models" \
		>"$CHOKE_TMP/out.$i" 2>&1 &
	pids+=($!)
done
bad=0
for pid in "${pids[@]}"; do
	wait "$pid" || bad=$((bad + 1))
done
touch "$CHOKE_TMP/enough"
sed 's/^/# /' "$CHOKE_TMP"/out.*
[ $bad -eq 0 ] || fail "$bad writers failed"
wait $tuner || fail "tune was not answered within 30 s"

begin "the writers did meet their limits, in every way"
expect_num "$(stat_json quota.refused_blocks)" -gt 0 "refusals"
expect_num "$(awk '{ n += $4 } END { print n }' "$CHOKE_TMP"/out.*)" -gt 0 "EDQUOT seen by writers"
expect_num "$(awk '{ n += $6 } END { print n }' "$CHOKE_TMP"/out.*)" -gt 0 "short writes"
expect_num "$(stat_json rollback.count)" -gt 0 "rollbacks"
expect_num "$(stat_json rollback.by_list)" -gt 0 "walks by list"

begin "quotacheck finds nothing on the live mount"
expect_no_drift

begin "the cache kept to its limit"
expect_num "$(stat_json cache.pages)" -le 16384 "resident pages"

begin "the backing holds every byte once the mount is gone, and quotacheck agrees"
umount_choke
files=0
for model in "$CHOKE_TMP"/models/*; do
	cmp "$model" "$BACKING/$(basename "$model")" || fail "$(basename "$model") differs"
	files=$((files + 1))
done
expect_num $files -gt 16 "files compared"
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"

begin "nothing is charged once the files are gone"
mount_again
rm -f "$MNT"/w*
for uid in 1000 1001 1002 1003; do
	expect_eq "$(usage_of $uid)" 0 "usage of uid $uid"
done
umount_choke
