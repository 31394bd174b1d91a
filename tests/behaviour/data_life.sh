#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# What a file is charged for follows it from its first block to its last close, and over a change of block size or a crash.
. "$(dirname "$0")/../lib/lib.sh"

# hold_open PATH: opens it as uid 1000 in a process that writes where its input says; $HOLDER.
hold_open()
{
	coproc HOLD { exec setpriv --reuid 1000 --regid 1000 --clear-groups -- \
		python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
print("open", flush=True)
for line in sys.stdin:
    try:
        print(os.pwrite(fd, b"y" * 65536, int(line)), flush=True)
    except OSError as e:
        print(e.strerror, flush=True)' "$1"; }
	HOLDER=$HOLD_PID
	read -r -u "${HOLD[0]}" answer
	expect_eq "$answer" open
}

let_go()
{
	exec {HOLD[1]}>&-
	wait "$HOLDER"
}

usage_is() { [ "$(usage_of "$1")" -eq "$2" ]; }

mount_choke
begin "a file without a name is paid for until its last close"
as_uid 1000 dd if=/dev/zero of="$MNT/gone" bs=64K count=16 status=none
expect_num "$(usage_of 1000)" -eq 1048576
hold_open "$MNT/gone"
rm "$MNT/gone"
expect_num "$(usage_of 1000)" -eq 1048576
expect_no_drift
echo 1048576 >&"${HOLD[1]}"
read -r -u "${HOLD[0]}" answer
expect_eq "$answer" 65536
expect_num "$(usage_of 1000)" -eq 1114112
expect_no_drift
let_go
wait_until 5 usage_is 1000 0
expect_no_drift

begin "what was unlinked before it was written back is not written any more"
stat_reset
as_uid 1000 dd if=/dev/zero of="$MNT/never" bs=1M count=8 status=none
rm "$MNT/never"
sync -f "$MNT"
expect_num "$(stat_json cache.dirty)" -eq 0

begin "a hole costs nothing, and truncating gives back what lay beyond"
as_uid 1000 truncate -s 1T "$MNT/sparse"
expect_num "$(usage_of 1000)" -eq 0
as_uid 1000 dd if=/dev/zero of="$MNT/sparse" bs=4K count=1 seek=200000000 conv=notrunc status=none
as_uid 1000 dd if=/dev/zero of="$MNT/sparse" bs=100 count=1 seek=368 conv=notrunc status=none
expect_num "$(usage_of 1000)" -eq 12288 # 100 bytes across a border
expect_eq "$(stat -c %b "$MNT/sparse")" 24
as_uid 1000 truncate -s 1G "$MNT/sparse"
expect_num "$(usage_of 1000)" -eq 8192
as_uid 1000 sh -c ": >'$MNT/sparse'"
expect_num "$(usage_of 1000)" -eq 0
expect_no_drift

begin "reserve hands out the room to the last block, and says how much it took"
setquota_kib 1000 0 40
answer=$(as_uid 1000 python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print(os.pwrite(fd, b"a" * 5000, 0), os.pwrite(fd, b"b" * 100000, 5000))
try:
    os.pwrite(fd, b"c", 40960)
except OSError as e:
    print(e.errno == 122)' "$MNT/short" | tr '\n' ' ')
expect_eq "$answer" "5000 35960 True "
expect_num "$(stat -c %s "$MNT/short")" -eq 40960
rm "$MNT/short"
setquota_kib 1000 0 0

begin "times set by cp -a survive write-back"
head -c 3000000 /dev/urandom >"$CHOKE_TMP/dated"
touch -d '2003-04-05 06:07:08.123456789' "$CHOKE_TMP/dated"
cp -a "$CHOKE_TMP/dated" "$MNT/dated"
before=$(stat -c %.9Y "$MNT/dated")
ctime=$(stat -c %.9Z "$MNT/dated")
sync -f "$MNT/dated"
dd if=/dev/null of="$MNT/dated" conv=notrunc,fsync status=none
expect_eq "$(stat -c %.9Y "$MNT/dated")" "$(stat -c %.9Y "$CHOKE_TMP/dated")"
expect_eq "$(stat -c %.9Y "$MNT/dated")" "$before"
expect_eq "$(stat -c %.9Z "$MNT/dated")" "$ctime"
umount_choke
expect_eq "$(stat -c %.9Y "$BACKING/dated")" "$before"
cmp "$BACKING/dated" "$CHOKE_TMP/dated"

begin "another block size counts anew"
printf x >"$BACKING/one"
mount_again -o block_size=64K
expect_num "$(usage_of 0)" -eq $((65536 * (1 + 46)))
expect_no_drift
remount -o block_size=4K
expect_num "$(usage_of 0)" -eq $((4096 * (1 + 733)))
expect_no_drift

begin "names are many, files are counted once"
for i in $(seq 20); do
	mkdir -p "$MNT/dir$i"
	ln "$MNT/dated" "$MNT/dir$i/name$i"
done
deep=$MNT
for i in $(seq 200); do
	deep=$deep/d
	mkdir "$deep"
done
echo deep >"$deep/file"
expect_no_drift
kill_daemon
"$CHOKEFS" quotacheck "$BACKING" 2>&1 | grep -q "did not end cleanly" || fail "a look is not told of the crash"
mount_again
expect_num "$(usage_of 0)" -eq $((4096 * (1 + 733 + 1)))
expect_no_drift

begin "a check that only looks leaves the database clean"
umount_choke
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
dd if=/dev/zero of="$BACKING/behind_its_back" bs=4K count=3 status=none
expect_rc 1 "$CHOKEFS" quotacheck "$BACKING"
expect_rc 0 "$CHOKEFS" quotacheck --repair "$BACKING"
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
