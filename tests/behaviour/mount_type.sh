#!/bin/bash
# SPDX-License-Identifier: MIT
# mount(8) and fstab know the file system by its type, once it is installed.
# Installed where mount(8) looks, in a mount namespace of our own, which spares the machine.
if ! unshare --mount --propagation private true 2>/dev/null; then
	echo "ok - mount(8) knows the type # SKIP a mount namespace of one's own cannot be made here"
	exit 0
fi
[ -n "${CHOKE_NAMESPACE-}" ] || CHOKE_NAMESPACE=yes exec unshare --mount --propagation private bash "$0" "$@"
. "$(dirname "$0")/../lib/lib.sh"

mount -t tmpfs none /usr/local/sbin
mount -t tmpfs none /usr/local/bin
ln -s "$(realpath "$CHOKEFS")" /usr/local/bin/chokefs
mkdir "$CHOKE_TMP/mnt" "$CHOKE_TMP/backing"
MNT=$CHOKE_TMP/mnt
BACKING=$CHOKE_TMP/backing

begin "mount -t fuse.chokefs mounts, with our options and mount's"
expect_rc 0 mount -t fuse.chokefs "$BACKING" "$MNT" -o rollback=list,noatime
choke_find_daemon
expect_eq "$(stat_json settings.rollback)" list
grep -q " $MNT fuse.chokefs [^ ]*noatime" /proc/mounts || fail "noatime is not in /proc/mounts"
grep -q "^$BACKING $MNT fuse.chokefs" /proc/mounts || fail "the source is not the backing: $(grep "$MNT" /proc/mounts)"

begin "umount(8) ends it and writes everything back"
head -c 100000 /dev/urandom >"$MNT/f"
sum=$(sha256sum <"$MNT/f")
umount "$MNT"
wait_until 30 daemon_is_gone
expect_eq "$(sha256sum <"$BACKING/f")" "$sum"

begin "a line in fstab works"
echo "$BACKING $MNT fuse.chokefs noauto,nosuid,undo=all,nofail 0 0" >"$CHOKE_TMP/fstab"
expect_rc 0 mount -T "$CHOKE_TMP/fstab" "$MNT"
choke_find_daemon
expect_eq "$(stat_json settings.undo)" all
umount_choke

begin "an unknown option of mount(8) is an error and nothing is mounted"
expect_err frob mount -t fuse.chokefs "$BACKING" "$MNT" -o frob=1
! mountpoint -q "$MNT" || fail "mounted"
