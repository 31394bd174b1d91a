#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
# A daemon without privileges, which cannot open by handle, serves more files than it may have descriptors.
. "$(dirname "$0")/../lib/user.sh"
as_user_with_512() { as_user bash -c 'ulimit -n 512 && "$@"' bash "$@"; }
numbers() { as_user find "$MNT" -printf '%P %i\n' | sort; }

expect_rc 0 as_user_with_512 "$CHOKEFS" mount "$BACKING" "$MNT"
choke_find_daemon

begin "three thousand files are known at once with 512 descriptors"
as_user bash -c 'mkdir -p "$0"/a/b && cd "$0" && seq -f "a/b/f%.0f" 3000 | xargs touch' "$MNT"
expect_eq "$(as_user ls -l "$MNT/a/b" | grep -c ' f[0-9]*$')" 3000
expect_num "$(ls "/proc/$DAEMON/fd" | wc -l)" -lt 512 "descriptors"

begin "their directories can be renamed, and they are still found"
numbers | sed 's,^a/b,a/c,;s,^a,d,' | sort >"$CHOKE_TMP/want"
as_user mv "$MNT/a/b" "$MNT/a/c"
as_user mv "$MNT/a" "$MNT/d"
expect_rc 0 as_user find "$MNT" -type f -exec chmod 640 {} +
numbers >"$CHOKE_TMP/got"
expect_rc 0 diff "$CHOKE_TMP/want" "$CHOKE_TMP/got"

begin "one is found by its other name when the first is gone"
as_user ln "$MNT/d/c/f1" "$MNT/other"
as_user rm "$MNT/d/c/f1"
as_user ls -l "$MNT/d/c" >/dev/null
expect_rc 0 as_user cat "$MNT/other"

begin "all of them can be removed"
expect_rc 0 as_user rm -r "$MNT/d" "$MNT/other"
expect_rc 0 as_user "$CHOKEFS" quotacheck "$MNT"
expect_rc 0 as_user "$CHOKEFS" umount "$MNT"
wait_until 20 daemon_is_gone
