#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
# The congestion gate, the flusher and the modelled device do what the switches say, and never stop for good.
. "$(dirname "$0")/../lib/lib.sh"

# write_for SECONDS FILES: as many writers, each its own file, 64 KiB at a time; prints MiB written by all.
write_for()
{
	python3 -c '
import os, sys, threading, time
end, total = time.monotonic() + float(sys.argv[2]), [0] * int(sys.argv[3])
def work(number):
    fd = os.open(f"{sys.argv[1]}/load.{number}", os.O_CREAT | os.O_WRONLY, 0o644)
    off = 0
    while time.monotonic() < end:
        os.pwrite(fd, b"x" * 65536, off % (64 << 20))
        off += 65536
        total[number] += 65536
threads = [threading.Thread(target=work, args=(n,)) for n in range(len(total))]
[t.start() for t in threads]
[t.join() for t in threads]
print(sum(total) >> 20)' "$MNT" "$1" "$2"
}

begin "the modelled device is busy for bytes / rate, within 1 %"
mount_choke -o "cache_bytes=64M,device=rate=32M,congestion=block,congestion_kb=4096"
stat_reset
dd if=/dev/zero of="$MNT/f" bs=64K count=1024 status=none
sync "$MNT/f"
bytes=$(stat_json device.bytes)
busy=$(stat_json device.busy_ns)
ideal=$((bytes * 1000 / 32 * 1000 / 1024 * 1000 / 1024))
note "$bytes bytes, busy $busy ns, bytes / rate is $ideal ns"
expect_num "$bytes" -ge $((64 << 20)) "bytes written"
expect_num $((busy * 100)) -ge $((ideal * 99)) "busy time"
expect_num $((busy * 100)) -le $((ideal * 101)) "busy time"
umount_choke

load="cache_bytes=64M,dirty_background_bytes=4M,dirty_bytes=48M,device=rate=32M,congestion_kb=4096,pass_bytes=1M,completion=batch,restart_poll_ms=100"

begin "congestion=block: the flusher waits at the gate and skips nothing"
mount_choke -o "$load,congestion=block"
stat_reset
note "$(write_for 4 4) MiB in 4 s"
expect_num "$(stat_json gate.waits)" -gt 0 "waits"
expect_eq "$(stat_json gate.passes_skipped)" 0 "passes skipped"
idle_block=$(stat_json device.idle_ns) busy=$(stat_json device.busy_ns)
note "idle for $((idle_block * 100 / (idle_block + busy))) % of the time"
umount_choke

begin "congestion=skip: passes are skipped, and the device idles while pages wait, far longer than in block"
mount_choke -o "$load,congestion=skip"
stat_reset
note "$(write_for 4 4) MiB in 4 s"
expect_num "$(stat_json gate.passes_skipped)" -gt 0 "passes skipped"
expect_eq "$(stat_json gate.waits)" 0 "waits"
expect_num "$(stat_json flusher.wakeups_poll)" -gt 0 "restarts by writers' polls"
idle=$(stat_json device.idle_ns) busy=$(stat_json device.busy_ns)
note "idle for $((idle * 100 / (idle + busy))) % of the time"
expect_num $((idle * 10)) -ge $((idle + busy)) "ten times the idle time"
expect_num "$idle" -ge $((idle_block * 2)) "idle time against that of block"

begin "congestion=none: the gate is never asked"
tune congestion=none
stat_reset
note "$(write_for 2 4) MiB in 2 s"
expect_eq "$(stat_json gate.passes_skipped)" 0 "passes skipped"
expect_eq "$(stat_json gate.waits)" 0 "waits"

begin "ON and OFF are three quarters apart, in pages, and follow congestion_kb"
expect_eq "$(stat_json gate.on)" 1024
expect_eq "$(stat_json gate.off)" 768
tune congestion_kb=8192
expect_eq "$(stat_json gate.on)" 2048
expect_eq "$(stat_json gate.off)" 1536
umount_choke

begin "fsync gets through a closed gate in every mode"
for mode in skip block; do
	mount_choke -o "cache_bytes=64M,device=rate=8M,congestion_kb=64,congestion=$mode"
	(write_for 5 2 >/dev/null) &
	writer=$!
	wait_until 5 eval '[ "$(stat_json gate.times_congested)" -gt 0 ]'
	expect_rc 0 timeout 20 python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, b"y" * 100000)
os.fsync(fd)' "$MNT/synced"
	expect_eq "$(stat -c %s "$BACKING/synced")" 100000 "size on the backing"
	cmp "$MNT/synced" "$BACKING/synced" || fail "the backing has not what was synced"
	wait $writer
	umount_choke
done

begin "waits at the gate end when the mode is switched, on a device that nearly stands still"
mount_choke -o "cache_bytes=64M,device=rate=100K,congestion_kb=64,congestion=block,dirty_background_bytes=256K,pass_bytes=64K"
dd if=/dev/zero of="$MNT/f" bs=64K count=16 status=none
wait_until 10 eval '[ "$(stat_json gate.waits)" -gt 0 ]'
expect_num "$(stat_json cache.dirty)" -gt 64 "dirty pages behind the gate"
tune congestion=none
wait_until 3 eval '[ "$(stat_json cache.dirty)" -le 64 ]'
tune device=none
wait_until 20 eval '[ "$(stat_json gate.outstanding)" -eq 0 ]'
expect_rc 0 timeout 20 sync "$MNT/f"

begin "the control channel answers while writers stand still"
tune device=rate=100K congestion=block congestion_kb=64 dirty_bytes=1M dirty_background_bytes=256K
for i in $(seq 12); do
	dd if=/dev/zero of="$MNT/slow.$i" bs=64K count=64 status=none 2>/dev/null &
done
wait_until 10 eval '[ "$(stat_json throttle.pauses)" -gt 0 ]'
expect_rc 0 timeout 5 "$CHOKEFS" stats "$MNT" --json
expect_rc 0 timeout 5 "$CHOKEFS" tune "$MNT"
expect_rc 0 timeout 5 "$CHOKEFS" repquota -u "$MNT"

begin "unmounting while the gate is closed and the device slow writes everything back"
tune device=rate=4M
wait
expect_rc 0 timeout 90 "$CHOKEFS" umount "$MNT"
wait_until 10 daemon_is_gone
for i in $(seq 12); do
	expect_eq "$(stat -c %s "$BACKING/slow.$i")" $((64 * 65536)) "size on the backing"
done

begin "fsync ends although the file is written without pause"
mount_choke -o "cache_bytes=64M,device=rate=32M"
write_for 5 1 >/dev/null &
writer=$!
wait_until 5 test -s "$MNT/load.0"
expect_rc 0 timeout 4 sync "$MNT/load.0"
kill -0 $writer || fail "the writer had ended by then: nothing was shown"
wait $writer
umount_choke

begin "the periodic pass writes what has been dirty for long enough, and nothing younger"
mount_choke -o "cache_bytes=256M,dirty_expire_centisecs=100,dirty_writeback_centisecs=20"
dd if=/dev/zero of="$MNT/f" bs=64K count=4 status=none
expect_eq "$(stat_json cache.dirty)" 64 "dirty pages at once"
wait_until 10 eval '[ "$(stat_json cache.dirty)" -eq 0 ]'
expect_num "$(stat_json flusher.wakeups_timer)" -gt 0 "wake-ups by the timer"
umount_choke

begin "resident pages keep to cache_bytes whatever is written, and clean ones stay"
mount_choke -o cache_bytes=16M
dd if=/dev/urandom of="$MNT/f" bs=64K count=1024 status=none
expect_num "$(stat_json cache.pages)" -le 4096 "resident pages"
expect_num "$(stat_json cache.reclaimed)" -gt 0 "pages reclaimed"
sync "$MNT/f"
expect_num "$(stat_json cache.pages)" -gt 2048 "resident pages after a sync"
tune cache_bytes=4M
wait_until 10 eval '[ "$(stat_json cache.pages)" -le 1024 ]'
sum=$(sha256sum <"$MNT/f")
umount_choke
expect_eq "$(sha256sum <"$BACKING/f")" "$sum" "contents of the backing"
