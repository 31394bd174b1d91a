#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A backing store that fails is reported once to each handle by fsync, at unmount by name, and loses nothing that it took.
. "$(dirname "$0")/../lib/lib.sh"

# A backing of 8 MiB, so that it is full before the quota is.
small=$CHOKE_TMP/small
mkdir "$small"
mount -t tmpfs -o size=8M,mode=1777 none "$small"
MNT=$CHOKE_TMP/mnt
mkdir "$MNT"
BACKING=$small
mount_again -o dirty_writeback_centisecs=0,cache_bytes=64M

begin "fsync reports the backing's ENOSPC once to each handle, and not as EDQUOT"
OUT=$(python3 -c '
import errno, os, sys
def sync(fd):
    try:
        os.fsync(fd)
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]
a = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)
b = os.open(sys.argv[1], os.O_WRONLY)
try:
    for i in range(16):
        os.write(a, b"x" * (1 << 20))
except OSError as error:
    print("write", errno.errorcode[error.errno])
print(sync(a), sync(b))' "$MNT/large" | tr '\n' ' ')
note "$OUT"
[[ $OUT == *"ENOSPC"* ]] || fail "ENOSPC was not reported: $OUT"
[[ $OUT != *EDQUOT* ]] || fail "the backing's lack of space was called EDQUOT"
expect_num "$(stat_json device.errors)" -gt 0 "device errors"

begin "umount says which file could not be written, and exits 1"
rm "$MNT/large"
dd if=/dev/zero of="$MNT/filler" bs=1M count=7 conv=fsync status=none
dd if=/dev/zero of="$MNT/lost-one" bs=1M count=3 status=none 2>/dev/null || true
expect_rc 1 "$CHOKEFS" umount "$MNT"
[[ $OUT == *lost-one* ]] || fail "lost-one is not named: $OUT"
[[ $OUT != *filler* ]] || fail "filler is named, which was written: $OUT"

wait_until 10 eval '[ -z "$(daemons_under "$MNT")" ]'
umount "$small"

begin "fsync leaves the exact size and every byte on the backing"
mount_choke
for size in 1 4095 4096 4097 100000 1048577; do
	head -c $size /dev/urandom >"$MNT/f.$size"
	sync "$MNT/f.$size"
	expect_eq "$(stat -c %s "$BACKING/f.$size")" $size "size on the backing"
	cmp "$MNT/f.$size" "$BACKING/f.$size" || fail "the backing differs"
done

begin "inode numbers are the backing's, and a number that is still known is not used again"
expect_eq "$(stat -c %i "$MNT/f.4096")" "$(stat -c %i "$BACKING/f.4096")" "inode number"
exec 9<"$MNT/f.4097"
number=$(stat -c %i "$MNT/f.4097")
rm "$MNT/f.4097"
for i in $(seq 200); do
	echo x >"$MNT/new.$i"
	[ "$(stat -c %i "$MNT/new.$i")" != "$number" ] || fail "new.$i has the number of a file that is still open"
done
exec 9<&-

begin "SIGTERM writes everything back before the daemon ends"
head -c 3000000 /dev/urandom >"$MNT/late"
sum=$(sha256sum <"$MNT/late")
kill -TERM "$DAEMON"
wait_until 30 daemon_is_gone
expect_eq "$(sha256sum <"$BACKING/late")" "$sum" "contents on the backing"
! mountpoint -q "$MNT" || fail "still mounted"

begin "umount(8) of a busy mount is refused and harms nothing"
mount_again
exec 9<"$MNT/late"
expect_err "busy" umount "$MNT"
expect_eq "$(sha256sum <"$MNT/late")" "$sum" "contents"
exec 9<&-
umount_choke
