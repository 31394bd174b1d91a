# SPDX-License-Identifier: MIT
#
# For scripts in which a user without any privilege mounts, to be sourced instead of lib.sh.
#
# Whether users may open /dev/fuse is the machine's choice; here it is made for a mount namespace of our own, in which the
# script starts itself anew. Gives MNT and BACKING, both owned by uid 1000, and as_user CMD...
[ -n "${CHOKE_NAMESPACE-}" ] || CHOKE_NAMESPACE=yes exec unshare --mount --propagation private bash "$0" "$@"
. "$(dirname "$0")/../lib/lib.sh"

name_uid 1000
mkdir -p "$CHOKE_TMP/user/backing" "$CHOKE_TMP/user/mnt"
chown -R 1000:1000 "$CHOKE_TMP/user"
mount -t tmpfs -o mode=755,dev none "$CHOKE_TMP/user/mnt"
mknod -m 666 "$CHOKE_TMP/user/mnt/fuse" c 10 229
mount --bind "$CHOKE_TMP/user/mnt/fuse" /dev/fuse
umount -l "$CHOKE_TMP/user/mnt"
MNT=$CHOKE_TMP/user/mnt
BACKING=$CHOKE_TMP/user/backing

as_user() { as_uid 1000 env -u XDG_RUNTIME_DIR "$@"; }
