#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# What programs do to files has the same outcome on a mount as on the plain file system.
. "$(dirname "$0")/../lib/lib.sh"

# What a FUSE file system cannot do here, whatever it is made of.
declare -A cannot=(
	[temporary_files_without_a_name]="libfuse 3.14 speaks protocol 7.31, which has no TMPFILE"
	[fallocate_collapses_and_inserts]="the kernel's FUSE passes on no collapse and no insert"
)

begin "plain: the questions have the answers that POSIX gives"
mkdir "$CHOKE_TMP/plain"
chmod 755 "$CHOKE_TMP/plain"
python3 "$CHOKE_ROOT/tests/behaviour/posix.py" "$CHOKE_TMP/plain" >"$CHOKE_TMP/plain.txt" || true
! grep WRONG "$CHOKE_TMP/plain.txt" || fail "wrong on the plain file system: the test is at fault"

mount_choke
mkdir "$MNT/root"
python3 "$CHOKE_ROOT/tests/behaviour/posix.py" "$MNT/root" >"$CHOKE_TMP/mount.txt" || true
wrong=0
while IFS= read -r line; do
	name=${line%%:*}
	begin "chokefs: ${name//_/ }"
	mounted=$(grep "^$name: " "$CHOKE_TMP/mount.txt" || echo "$name: (no answer)")
	if [ -n "${cannot[$name]-}" ] && [[ $mounted == *ENOTSUP* || $mounted == *EOPNOTSUPP* ]]; then
		skip "${cannot[$name]}"
	elif [ "$mounted" != "$line" ]; then
		echo "# plain:   $line"
		echo "# chokefs: $mounted"
		echo "not ok - $choke_case"
		choke_case=
		wrong=1
	fi
done <"$CHOKE_TMP/plain.txt"

begin "nothing has drifted after all that"
expect_no_drift
umount_choke
expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
if [ $wrong -ne 0 ]; then
	echo "ok - $choke_case"
	choke_failed=yes
	exit 1
fi
