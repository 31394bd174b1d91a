#!/bin/bash
# SPDX-License-Identifier: MIT
# A damaged quota database is refused by name, never reset in silence, and repaired when told to be.
. "$(dirname "$0")/../lib/lib.sh"

mount_choke
setquota_kib 1000 100 200 30 40
setquota_kib 1001 0 4242
as_uid 1000 dd if=/dev/zero of="$MNT/f" bs=4K count=5 status=none
umount_choke
db=$(find "$BACKING/.chokefs" -name '*.db' -type f)
cp -a "$db" "$CHOKE_TMP/sound.db"

# The mount must be refused with the name of the database and what to do; the database must stay as it is.
refuses_mount()
{
	local sum
	sum=$(sha256sum <"$db")
	expect_rc 1 "$CHOKEFS" mount "$BACKING" "$MNT"
	[[ $OUT == *"$(basename "$db")"* ]] || fail "does not name the database: $OUT"
	[[ $OUT == *"quotacheck --repair"* ]] || fail "does not say what to do: $OUT"
	! mountpoint -q "$MNT" || fail "mounted all the same"
	expect_eq "$(sha256sum <"$db")" "$sum" "the database after a refused mount"
}

begin "a file that is no database is refused"
rm -f "$db"-*
head -c 8192 /dev/urandom >"$db"
refuses_mount

begin "--repair keeps the bad file, starts a new one and counts usage anew"
expect_rc 0 "$CHOKEFS" quotacheck --repair "$BACKING"
expect_num "$(find "$BACKING/.chokefs" -name '*.damaged-*' | wc -l)" -ge 1 "files kept"
mount_again
expect_eq "$(usage_of 1000)" 20480 "usage"
umount_choke

begin "a truncated database is refused"
cp "$CHOKE_TMP/sound.db" "$db"
rm -f "$db"-*
truncate -s $(($(stat -c %s "$db") / 2)) "$db"
refuses_mount

begin "--repair keeps the limits that can be read"
cp "$CHOKE_TMP/sound.db" "$db"
rm -f "$db"-*
# One byte of the page count in the header and the tail of the file: the tables can still be read.
printf '\xff\xff\xff' | dd of="$db" bs=1 seek=28 conv=notrunc status=none
head -c 512 /dev/urandom >>"$db"
if ! "$CHOKEFS" mount "$BACKING" "$MNT" 2>/dev/null; then
	expect_rc 0 "$CHOKEFS" quotacheck --repair "$BACKING"
	mount_again
else
	choke_find_daemon
fi
expect_rc 0 "$CHOKEFS" repquota -u -n --json "$MNT"
[[ $OUT == *$((4242 * 1024))* || $OUT == *4242* ]] || fail "the limit of uid 1001 is gone: $OUT"
expect_eq "$(usage_of 1000)" 20480 "usage"
expect_no_drift
umount_choke

begin "an empty database file is refused, as one that was lost"
: >"$db"
rm -f "$db"-*
if "$CHOKEFS" mount "$BACKING" "$MNT" 2>/dev/null; then
	choke_find_daemon
	umount_choke
	fail "mounted: the limits were reset in silence"
fi
expect_rc 0 "$CHOKEFS" quotacheck --repair "$BACKING"
mount_again
expect_eq "$(usage_of 1000)" 20480 "usage"
umount_choke
