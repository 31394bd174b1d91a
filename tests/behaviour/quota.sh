#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# Who may store how much: limits, grace, what is charged to whom, and what stays possible over quota.
. "$(dirname "$0")/../lib/lib.sh"

mount_choke
u=61000 # an id without a name, so that messages show the number
dd_as() # dd_as UID FILE KIB [dd arguments...]
{
	local uid=$1 file=$2 kib=$3
	shift 3
	as_uid "$uid" dd if=/dev/zero of="$file" bs=1K count="$kib" status=none "$@"
}
expect_usage() { expect_eq "$(usage_of "$1")" "$2" "usage of uid $1"; }
# The number of 512-byte blocks that stat(2) says.
blocks_of() { stat -c %b "$1"; }
# Field $3 of the entry of id $2; $1: -u or -g.
entry_of()
{
	"$CHOKEFS" repquota "$1" -n --json "$MNT" | python3 -c '
import json, sys
entries = json.load(sys.stdin)
entries = entries if isinstance(entries, list) else entries["entries"]
print(next((e[sys.argv[2]] for e in entries if e["id"] == int(sys.argv[1])), 0))' "$2" "$3"
}

begin "whole blocks are charged to the owner, and stat(2) says the same number"
dd_as $u "$MNT/a" 5
expect_usage $u 8192
expect_eq "$(blocks_of "$MNT/a")" 16
dd_as $u "$MNT/a" 3 oflag=append conv=notrunc
expect_usage $u 8192
dd_as $u "$MNT/a" 1 oflag=append conv=notrunc
expect_usage $u 12288

begin "holes and sparse truncation cost nothing; filling them does"
as_uid $u truncate -s 1G "$MNT/sparse"
expect_usage $u 12288
as_uid $u dd if=/dev/zero of="$MNT/sparse" bs=4K count=3 seek=1000 conv=notrunc status=none
expect_usage $u 24576
expect_eq "$(blocks_of "$MNT/sparse")" 24

begin "truncating down and removing give back"
as_uid $u truncate -s 4100K "$MNT/sparse"
as_uid $u truncate -s 4001K "$MNT/sparse"
expect_usage $u 16384
rm "$MNT/sparse"
as_uid $u truncate -s 0 "$MNT/a"
expect_usage $u 0
expect_eq "$(entry_of -u $u inodes)" 1 "inodes"

begin "fallocate is charged, punching gives back"
as_uid $u fallocate -l 1M "$MNT/a"
expect_usage $u 1048576
as_uid $u fallocate -p -o 4096 -l 8192 "$MNT/a"
expect_usage $u 1040384
as_uid $u fallocate -p -o 100 -l 4096 "$MNT/a"
expect_usage $u 1040384
as_uid $u fallocate -n -o 1M -l 64K "$MNT/a"
expect_usage $u 1105920

begin "an unlinked file is charged until its last close"
exec 9<>"$MNT/a"
rm "$MNT/a"
expect_usage $u 1105920
exec 9>&-
wait_until 5 eval '[ "$(usage_of $u)" = 0 ]'
expect_eq "$(entry_of -u $u inodes)" 0 "inodes"

begin "a hard link costs nothing, and only the last name gives back"
dd_as $u "$MNT/a" 100
as_uid $u ln "$MNT/a" "$MNT/b"
expect_usage $u 102400
expect_eq "$(entry_of -u $u inodes)" 1 "inodes"
rm "$MNT/a"
expect_usage $u 102400
rm "$MNT/b"
expect_usage $u 0

begin "renaming over a file gives back what it held"
dd_as $u "$MNT/a" 100
dd_as 1001 "$MNT/b" 40
chmod 777 "$MNT"
mv -f "$MNT/a" "$MNT/b"
expect_usage 1001 0
expect_usage $u 102400
chmod 1777 "$MNT"

begin "chown moves the charge, or moves nothing when the new owner has no room"
chown 1001 "$MNT/b"
expect_usage $u 0
expect_usage 1001 102400
setquota_kib $u 0 64
"$CHOKEFS" tune "$MNT" enforce=root >/dev/null
expect_err "Disk quota exceeded" chown $u "$MNT/b"
expect_eq "$(stat -c %u "$MNT/b")" 1001 "owner"
expect_usage $u 0
expect_usage 1001 102400
"$CHOKEFS" tune "$MNT" enforce=on >/dev/null
rm "$MNT/b"

begin "group limits count as user limits do"
"$CHOKEFS" setquota -g 2000 0 100 0 0 "$MNT"
mkdir "$MNT/team"
chgrp 2000 "$MNT/team"
chmod 2777 "$MNT/team"
expect_err "Disk quota exceeded" dd_as 1001 "$MNT/team/f" 200
expect_eq "$(entry_of -g 2000 bytes)" 102400 "bytes of group 2000"
rm -r "$MNT/team"
"$CHOKEFS" setquota -g 2000 0 0 0 0 "$MNT"

begin "beyond the hard limit write(2) fails with EDQUOT, what fitted stays"
setquota_kib $u 0 100
expect_err "Disk quota exceeded" dd_as $u "$MNT/a" 200
expect_usage $u 102400
expect_eq "$(stat -c %s "$MNT/a")" 102400 "size"
expect_num "$(stat_json quota.refused_blocks)" -gt 0 "refusals"

begin "a write across the limit is short, and the next one refused"
as_uid $u truncate -s 80K "$MNT/a"
OUT=$(as_uid $u python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
print(os.write(fd, b"x" * 100000))
try:
    os.write(fd, b"x")
except OSError as error:
    print(error.strerror)
print(os.fstat(fd).st_size)' "$MNT/a" | tr '\n' ' ')
expect_eq "$OUT" "20480 Disk quota exceeded 102400 "

begin "over quota one can still look, overwrite, rename, chmod, shrink and remove"
as_uid $u stat "$MNT/a" >/dev/null
as_uid $u ls -l "$MNT" >/dev/null
dd_as $u "$MNT/a" 100 conv=notrunc
as_uid $u mv "$MNT/a" "$MNT/c"
as_uid $u chmod 600 "$MNT/c"
as_uid $u cat "$MNT/c" >/dev/null
as_uid $u touch "$MNT/c"
as_uid $u truncate -s 50K "$MNT/c"
dd_as $u "$MNT/c" 30 oflag=append conv=notrunc
as_uid $u rm "$MNT/c"
expect_usage $u 0

begin "root is counted, and limited only with enforce=root"
"$CHOKEFS" setquota -u 0 0 16 0 0 "$MNT"
dd if=/dev/zero of="$MNT/r" bs=1K count=100 status=none
expect_num "$(usage_of 0)" -ge 102400 "usage of root"
"$CHOKEFS" tune "$MNT" enforce=root >/dev/null
expect_err "Disk quota exceeded" dd if=/dev/zero of="$MNT/r2" bs=1K count=100 status=none
"$CHOKEFS" tune "$MNT" enforce=off >/dev/null
dd if=/dev/zero of="$MNT/r2" bs=1K count=100 status=none
dd_as $u "$MNT/a" 300
expect_usage $u 307200
"$CHOKEFS" tune "$MNT" enforce=on >/dev/null
rm -f "$MNT"/r "$MNT"/r2 "$MNT"/a
"$CHOKEFS" setquota -u 0 0 0 0 0 "$MNT"

begin "root's write to a file of a limited owner is charged to the owner"
setquota_kib $u 0 100
as_uid $u touch "$MNT/a"
dd if=/dev/zero of="$MNT/a" bs=1K count=64 conv=notrunc status=none
expect_usage $u 65536
rm "$MNT/a"

begin "the inode limit refuses the file and leaves no trace of it"
setquota_kib $u 0 0 0 3
as_uid $u touch "$MNT/1" "$MNT/2"
as_uid $u mkdir "$MNT/3"
expect_err "Disk quota exceeded" as_uid $u touch "$MNT/4"
expect_err "Disk quota exceeded" as_uid $u mkdir "$MNT/4"
expect_err "Disk quota exceeded" as_uid $u ln -s x "$MNT/4"
expect_err "Disk quota exceeded" as_uid $u mkfifo "$MNT/4"
expect_eq "$(ls "$MNT" | tr '\n' ' ')" "1 2 3 "
expect_num "$(stat_json quota.refused_inodes)" -eq 4 "refused inodes"
rm -r "$MNT"/[123]
expect_eq "$(entry_of -u $u inodes)" 0 "inodes"

begin "above the soft limit one may write until the grace period is over"
setquota_kib $u 50 200
"$CHOKEFS" setquota -u -t 3600 7200 "$MNT"
dd_as $u "$MNT/a" 40
expect_eq "$(entry_of -u $u bytes_expire)" 0 "expiry"
dd_as $u "$MNT/a" 20 oflag=append conv=notrunc
expire=$(entry_of -u $u bytes_expire)
expect_num "$expire" -gt "$(($(date +%s) + 3500))" "expiry"
tune clock_offset=3500
dd_as $u "$MNT/a" 10 oflag=append conv=notrunc
expect_eq "$(entry_of -u $u bytes_expire)" "$expire" "expiry after another write"
tune clock_offset=3700
expect_err "Disk quota exceeded" dd_as $u "$MNT/a" 10 oflag=append conv=notrunc
expect_num "$(stat_json quota.refused_grace)" -ge 1 "refused for grace"

begin "dropping to the soft limit stops the clock"
as_uid $u truncate -s 48K "$MNT/a"
expect_eq "$(entry_of -u $u bytes_expire)" 0 "expiry"
dd_as $u "$MNT/a" 20 oflag=append conv=notrunc
expect_num "$(entry_of -u $u bytes_expire)" -gt "$expire" "the new expiry"
tune clock_offset=0
rm "$MNT/a"

begin "a mapped write into a hole is charged to the owner"
setquota_kib $u 0 0
as_uid $u python3 -c '
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
os.ftruncate(fd, 40960)
area = mmap.mmap(fd, 40960)
area[4096:12288] = b"m" * 8192
area.flush()
os.fsync(fd)' "$MNT/a"
expect_usage $u 8192
rm "$MNT/a"

# Touches 64 pages of a hole by way of mmap and says what msync, fsync and the second fsync answer.
map_too_much()
{
	as_uid $u python3 -c '
import errno, mmap, os, sys
def answer(call, *args):
    try:
        call(*args)
        return "OK"
    except OSError as error:
        return errno.errorcode[error.errno]
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
os.ftruncate(fd, 64 << 12)
area = mmap.mmap(fd, 64 << 12)
for page in range(64):
    area[page << 12] = 1
print(answer(area.flush), answer(os.fsync, fd), answer(os.fsync, fd))' "$1"
}

begin "mapped writes that do not fit are reported by msync or fsync, once, whether what fits is kept or not"
setquota_kib $u 0 64
for how in "rollback=reserve undo=keep" "rollback=reserve undo=all" "rollback=list undo=all" "rollback=list undo=keep"; do
	# shellcheck disable=SC2086
	tune $how
	expect_eq "$(map_too_much "$MNT/a")" "EDQUOT OK OK" "answers with $how"
	[[ $how != *keep ]] || expect_usage $u 65536
	rm "$MNT/a"
	expect_usage $u 0
done
tune rollback=reserve undo=default
setquota_kib $u 0 0

begin "copy_file_range is charged"
dd_as $u "$MNT/a" 64
as_uid $u cp --reflink=never "$MNT/a" "$MNT/b"
expect_usage $u 131072
rm "$MNT/a" "$MNT/b"

begin "a limit may be set below what is used already"
dd_as $u "$MNT/a" 100
setquota_kib $u 0 10
expect_usage $u 102400
expect_err "Disk quota exceeded" dd_as $u "$MNT/a" 8 oflag=append conv=notrunc
as_uid $u truncate -s 4K "$MNT/a"
dd_as $u "$MNT/a" 1 oflag=append conv=notrunc
rm "$MNT/a"

begin "what any user may ask, and what only root"
setquota_kib $u 10 20
expect_rc 0 as_uid $u "$CHOKEFS" quota "$MNT"
expect_rc 0 as_uid $u "$CHOKEFS" stats "$MNT" --json
expect_rc 1 as_uid $u "$CHOKEFS" quota -u 1001 "$MNT"
expect_rc 1 as_uid $u "$CHOKEFS" setquota -u $u 0 0 0 0 "$MNT"
expect_rc 1 as_uid $u "$CHOKEFS" tune "$MNT" enforce=off
expect_eq "$(entry_of -u $u bytes_hard)" 20480 "limit"

begin "limits and usage survive a remount, and nothing has drifted"
dd_as $u "$MNT/a" 8
remount
expect_eq "$(entry_of -u $u bytes_hard)" 20480 "limit"
expect_usage $u 8192
expect_no_drift

begin "quotacheck finds what was changed behind the mount's back, and repairs it when told"
umount_choke
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
as_uid $u dd if=/dev/zero of="$BACKING/intruder" bs=1K count=12 status=none
expect_rc 1 "$CHOKEFS" quotacheck "$BACKING"
[[ $OUT == *$u* ]] || fail "does not name uid $u: $OUT"
expect_rc 1 "$CHOKEFS" quotacheck --json "$BACKING"
expect_rc 0 "$CHOKEFS" quotacheck --repair "$BACKING"
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
mount_again
expect_usage $u 20480
umount_choke

begin "larger blocks are charged whole"
mount_choke -o block_size=64K
dd_as $u "$MNT/a" 1
expect_usage $u 65536
expect_eq "$(blocks_of "$MNT/a")" 128
dd_as $u "$MNT/a" 64 oflag=append conv=notrunc
expect_usage $u 131072
expect_no_drift
umount_choke
