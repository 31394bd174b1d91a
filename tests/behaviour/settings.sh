#!/bin/bash
# SPDX-License-Identifier: MIT
# Every switch can be given at mount and, but for those of the mount, be thrown live; the statistics have their keys.
. "$(dirname "$0")/../lib/lib.sh"

begin "the defaults are those of the table"
mount_choke
while read -r key value; do
	expect_eq "$(stat_json settings.$key)" "$value" "$key"
done <<'TABLE'
rollback reserve
undo keep
block_size 4K
dirty_expire_centisecs 3000
dirty_writeback_centisecs 500
congestion block
congestion_kb 0
completion stream
restart_poll_ms 200
pass_bytes 0
device none
workers 10
enforce on
clock_offset 0
TABLE
ram_kib=$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)
expect_num "$(python3 -c '
import sys
text = sys.argv[1]
print(int(text[:-1]) << {"K": 0, "M": 10, "G": 20}[text[-1]] if text[-1] in "KMG" else int(text) >> 10)' \
	"$(stat_json settings.cache_bytes)")" -le $((ram_kib / 4 + 1024)) "cache_bytes in KiB"

begin "undo follows rollback until it is set"
for mode in list bounded ordered; do
	tune rollback=$mode
	expect_eq "$(stat_json settings.undo)" all "undo with $mode"
done
tune rollback=reserve
expect_eq "$(stat_json settings.undo)" keep "undo with reserve"

begin "every live switch takes each of its values and says so"
while read -r key values; do
	for value in $values; do
		tune "$key=$value"
		expect_eq "$(stat_json settings.$key)" "$value" "$key"
		expect_rc 0 "$CHOKEFS" tune "$MNT" "$key"
		[[ $OUT == *"$value"* ]] || fail "tune $key does not show $value: $OUT"
	done
done <<'TABLE'
rollback list bounded ordered reserve
undo all keep
cache_bytes 64M 128M
dirty_bytes 8M 16M
dirty_background_bytes 2M 4M
dirty_expire_centisecs 100 3000
dirty_writeback_centisecs 100 0 500
congestion none skip block
congestion_kb 4096 0
completion batch stream
restart_poll_ms 50 200
pass_bytes 1M 0
device rate=64M:latency=2ms:seek=8ms:depth=32 rate=1M none
enforce off root on
clock_offset 86400 -86400 0
TABLE

begin "tune without keys shows all of them"
expect_rc 0 "$CHOKEFS" tune "$MNT"
for key in rollback undo block_size cache_bytes dirty_bytes congestion completion device workers enforce clock_offset; do
	grep -q "$key" <<<"$OUT" || fail "$key is not shown: $OUT"
done

begin "stats --json has every key of its contract"
"$CHOKEFS" stats "$MNT" --json | python3 -c '
import json, sys
contract = {
 "": "version mountpoint backing uptime_ns settings ops quota rollback cache gate flusher throttle device",
 "ops.write": "count bytes errors p50_ns p99_ns max_ns",
 "quota": "refused_blocks refused_inodes refused_grace ids",
 "rollback": "count pages_visited pages_freed by_list by_tree time_ns lock_held_ns",
 "cache": "pages dirty writeback files reclaimed oldest_dirty_ns",
 "gate": "congested outstanding on off times_congested passes_skipped waits wait_ns",
 "flusher": "passes pages wakeups_poll wakeups_timer wakeups_gate",
 "throttle": "pauses pause_ns",
 "device": "writes bytes fsyncs busy_ns idle_ns inflight errors"}
stats = json.load(sys.stdin)
for path, keys in contract.items():
    value = stats
    for part in filter(None, path.split(".")):
        value = value[part]
    for key in keys.split():
        if key not in value:
            sys.exit(f"{path}.{key} is missing")
if stats["version"] != 1:
    sys.exit("version")' || fail "the contract is broken"

begin "operations are counted, with bytes and errors, and --reset starts anew"
stat_reset
expect_eq "$(stat_json ops.write.count)" 0
dd if=/dev/zero of="$MNT/f" bs=4K count=10 status=none
expect_eq "$(stat_json ops.write.count)" 10 "writes"
expect_eq "$(stat_json ops.write.bytes)" 40960 "bytes"
expect_num "$(stat_json ops.write.p50_ns)" -gt 0 "p50"
expect_num "$(stat_json ops.write.p99_ns)" -le "$(stat_json ops.write.max_ns)" "p99"
expect_eq "$(stat_json ops.create.count)" 1 "creates"
mkdir "$MNT/d"
! mkdir "$MNT/d" 2>/dev/null
! rmdir "$MNT/gone" 2>/dev/null
stat_reset
expect_eq "$(stat_json ops.write.count)" 0 "writes after a reset"
expect_eq "$(stat_json cache.pages)" 10 "resident pages, a gauge"

begin "stats has a form for people and one for Prometheus"
expect_rc 0 "$CHOKEFS" stats "$MNT"
[ -n "$OUT" ] || fail "nothing is said"
expect_rc 0 "$CHOKEFS" stats "$MNT" --prometheus
grep -qE '^chokefs_[a-z_]+(\{[^}]*\})? [0-9.e+]+$' <<<"$OUT" || fail "no sample in: $OUT"
umount_choke

begin "switches given at mount are in force"
mount_choke -o rollback=list,undo=keep,block_size=16K,cache_bytes=32M,congestion=skip,workers=3,enforce=root
expect_eq "$(stat_json settings.rollback)" list
expect_eq "$(stat_json settings.undo)" keep
expect_eq "$(stat_json settings.block_size)" 16K
expect_eq "$(stat_json settings.workers)" 3
umount_choke

begin "a read-only mount refuses changes and serves what is there"
echo kept >"$BACKING/kept"
mount_again -o ro
expect_eq "$(cat "$MNT/kept")" kept
expect_err "Read-only file system" touch "$MNT/new"
umount_choke

begin "nosuid, nodev, noexec and noatime are passed on"
mount_again -o nosuid,nodev,noexec,noatime
for option in nosuid nodev noexec noatime; do
	grep -q " $MNT fuse.chokefs [^ ]*$option" /proc/mounts || fail "$option is not in /proc/mounts"
done
umount_choke

begin "a private mount of root is closed to others, any other is open"
mount_again -o private
expect_err "Permission denied" as_uid 1000 ls "$MNT"
umount_choke
mount_again
expect_rc 0 as_uid 1000 ls "$MNT"

begin "the daemon's own directory is hidden and cannot be reached by name"
expect_eq "$(ls -A "$MNT" | grep -c chokefs || true)" 0 "entries"
expect_err "" ls "$MNT/.chokefs"
expect_err "" mkdir "$MNT/.chokefs"
expect_err "" mv "$MNT/kept" "$MNT/.chokefs"
[ -d "$BACKING/.chokefs" ] || fail "it is not in the backing"
umount_choke

begin "a scratch mount has a backing of its own that goes with it"
mkdir -p "$CHOKE_TMP/scratch"
MNT=$CHOKE_TMP/scratch
"$CHOKEFS" mount --scratch "$MNT"
choke_find_daemon
where=$(stat_json backing)
echo x >"$MNT/f"
[ -d "$where" ] || fail "$where is not a directory"
umount_choke
[ ! -e "$where" ] || fail "$where is still there"

begin "-f stays in the foreground and ends well on SIGTERM"
mkdir "$CHOKE_TMP/fg" "$CHOKE_TMP/fgb"
MNT=$CHOKE_TMP/fg
"$CHOKEFS" mount -f "$CHOKE_TMP/fgb" "$MNT" &
pid=$!
wait_until 10 mountpoint -q "$MNT"
echo y >"$MNT/f"
kill -TERM $pid
wait $pid || fail "status $?"
expect_eq "$(cat "$CHOKE_TMP/fgb/f")" y
! mountpoint -q "$MNT" || fail "still mounted"

begin "two mounts live side by side with limits of their own"
mount_choke
first=$MNT
setquota_kib 1000 0 100
mount_choke
setquota_kib 1000 0 200
expect_err "Disk quota exceeded" as_uid 1000 dd if=/dev/zero of="$MNT/f" bs=1K count=300 status=none
expect_eq "$(usage_of 1000)" $((200 << 10))
umount_choke
MNT=$first
choke_find_daemon
expect_eq "$(usage_of 1000)" 0
umount_choke
