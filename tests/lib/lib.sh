# SPDX-License-Identifier: MIT
#
# What behaviour and stress scripts share. For bash, to be sourced first:
#
#   . "$(dirname "$0")/../lib/lib.sh"
#   mount_choke -o rollback=list
#   begin "a refused write visits every resident page"
#   ...
#   expect_num "$(stat_json rollback.pages_visited)" -eq 262144
#
# begin() opens a named case and closes the one before it as passed. An expectation that does not hold
# ends the script: "not ok" with the reason. Output is TAP-like; tests/run counts it. A script that is run alone
# makes and removes its own scratch directory.
set -euo pipefail

: "${CHOKE_ROOT:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${CHOKE_BUILD:=${CHOKEFS_BUILD:-$CHOKE_ROOT/build}/${CHOKEFS_KIND:-release}}"
: "${CHOKEFS:=$CHOKE_BUILD/cli/chokefs}"
. "$CHOKE_ROOT/tests/lib/sweep.sh"

# The system's own tools: those of a developer's home cannot be run by other uids.
PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH

choke_own_tmp=
if [ -z "${CHOKE_TMP-}" ]; then
	CHOKE_TMP=$(mktemp -d "${CHOKEFS_SCRATCH:-/var/tmp}/chokefs-test.XXXXXX")
	chmod 755 "$CHOKE_TMP"
	choke_own_tmp=yes
fi

# A copy of the program that any uid can reach: the tree may be in root's home.
if [ "${CHOKEFS%/*}" != "$CHOKE_TMP/bin" ]; then
	mkdir -p "$CHOKE_TMP/bin"
	cp "$CHOKEFS" "$CHOKE_TMP/bin/chokefs"
	CHOKEFS=$CHOKE_TMP/bin/chokefs
fi

choke_case=
choke_mounts=0
choke_failed=
MNT=     # the mount that functions act on: the last one made
BACKING= # its backing directory
DAEMON=  # its daemon's pid

choke_finish()
{
	local status=$?
	trap - EXIT
	trap '' INT TERM
	if [ $status -ne 0 ] && [ -s "$CHOKE_TMP/daemon.log" ]; then
		tail -n 60 "$CHOKE_TMP/daemon.log" | sed 's/^/# daemon: /'
	fi
	if [ $status -ne 0 ] && [ -z "$choke_failed" ]; then
		echo "not ok - ${choke_case:-before the first case} (the script ended with status $status)"
	elif [ $status -eq 0 ] && [ -n "$choke_case" ]; then
		echo "ok - $choke_case"
	fi
	if [ -n "$choke_own_tmp" ]; then
		cd /
		sweep "$CHOKE_TMP" || true
		rm -rf "$CHOKE_TMP"
	fi
	exit $status
}
trap choke_finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'echo "# $BASH_SOURCE:$LINENO: $BASH_COMMAND"' ERR

# Opens the case named by the sentence $1.
begin()
{
	[ -z "$choke_case" ] || echo "ok - $choke_case"
	choke_case=$1
}

# Ends the script: the open case failed because of $*.
fail()
{
	echo "# $*"
	echo "not ok - ${choke_case:-before the first case}"
	choke_failed=yes
	exit 1
}

# Closes the open case as not applicable. $*: a fact about this machine.
skip()
{
	echo "ok - $choke_case # SKIP $*"
	choke_case=
}

note() { echo "# $*"; }

# ---- expectations ----

# expect_num A OP B [WHAT]: as test(1), with both numbers in the message.
expect_num()
{
	test "$1" "$2" "$3" || fail "${4:-value}: expected $1 $2 $3"
}

# expect_eq A B [WHAT]
expect_eq()
{
	[ "$1" = "$2" ] || fail "${3:-value}: got '$1', expected '$2'"
}

# expect_rc STATUS CMD...: runs it; its output is in $OUT, and shown if the status differs.
expect_rc()
{
	local want=$1 got=0
	shift
	OUT=$("$@" 2>&1) || got=$?
	[ "$got" -eq "$want" ] || fail "status $got, expected $want: $*: $OUT"
}

# expect_err TEXT CMD...: it must fail (not by a signal) and say TEXT on stderr. $OUT: what it said.
expect_err()
{
	local text=$1 got=0
	shift
	OUT=$("$@" 2>&1 >/dev/null) || got=$?
	[ "$got" -ne 0 ] || fail "succeeded, expected an error with '$text': $*"
	[ "$got" -lt 126 ] || fail "status $got: $*: $OUT"
	[[ $OUT == *"$text"* ]] || fail "expected an error with '$text', got '$OUT': $*"
}

# wait_until SECONDS CMD...: polls until it succeeds.
wait_until()
{
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -le $deadline ] || fail "did not come true in time: $*"
		sleep 0.05
	done
}

# ---- mounts ----

choke_find_daemon()
{
	DAEMON=$(daemons_under "$MNT" | head -n 1)
	[ -n "$DAEMON" ] || fail "no daemon serves $MNT"
}

# mount_choke [-o OPTIONS]: a fresh backing directory on disk, open to all as /tmp is, mounted.
mount_choke()
{
	choke_mounts=$((choke_mounts + 1))
	BACKING=$CHOKE_TMP/fs$choke_mounts/backing
	MNT=$CHOKE_TMP/fs$choke_mounts/mnt
	mkdir -p "$BACKING" "$MNT"
	chmod 1777 "$BACKING"
	mount_again "$@"
}

# mount_again [-o OPTIONS]: the same backing at the same place. The daemon stays in the foreground, as our child, so that what
# it says last (an assertion, a sanitizer) is in daemon.log and shown when the script fails.
mount_again()
{
	echo "# mount $*" >>"$CHOKE_TMP/daemon.log"
	"$CHOKEFS" mount -f "$@" "$BACKING" "$MNT" >>"$CHOKE_TMP/daemon.log" 2>&1 &
	DAEMON=$!
	disown "$DAEMON"
	wait_until 60 mount_is_decided
	"$CHOKEFS" stats "$MNT" --json >/dev/null 2>&1 || fail "chokefs mount $* failed"
}

mount_is_decided() { daemon_is_gone || "$CHOKEFS" stats "$MNT" --json >/dev/null 2>&1; }

umount_choke()
{
	local status=0
	"$CHOKEFS" umount "$MNT" || status=$?
	[ $status -eq 0 ] || fail "chokefs umount: status $status"
	wait_until 20 daemon_is_gone
}

# A zombie is gone too: bash reaps its children when it likes.
daemon_is_gone()
{
	[ ! -d "/proc/$DAEMON" ] || [[ $(cat "/proc/$DAEMON/stat" 2>/dev/null) =~ \)\ Z || ! -d /proc/$DAEMON ]]
}

# remount [-o OPTIONS]: out and in again.
remount()
{
	umount_choke
	mount_again "$@"
}

# The daemon dies as by a power cut of its own; the mount that is left is taken away.
kill_daemon()
{
	kill -KILL "$DAEMON"
	wait_until 20 daemon_is_gone
	umount -l "$MNT"
}

# tune KEY=VALUE...
tune()
{
	"$CHOKEFS" tune "$MNT" "$@" >/dev/null || fail "tune $* failed"
}

# setquota_kib UID SOFT HARD [ISOFT IHARD]
setquota_kib()
{
	"$CHOKEFS" setquota -u "$1" "$2" "$3" "${4:-0}" "${5:-0}" "$MNT" || fail "setquota $* failed"
}

# ---- what the mount says of itself ----

# json_get KEY <JSON: the value at a dotted path, as rollback.count or settings.undo.
json_get()
{
	python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(json.dumps(value) if isinstance(value, (dict, list, bool)) else value)' "$1"
}

stat_json() { "$CHOKEFS" stats "$MNT" --json | json_get "$1"; }
stat_reset() { "$CHOKEFS" stats "$MNT" --reset >/dev/null; }

# usage_of UID: bytes it is charged for.
usage_of()
{
	"$CHOKEFS" repquota -u -n --json "$MNT" | python3 -c '
import json, sys
wanted = int(sys.argv[1])
entries = json.load(sys.stdin)
entries = entries if isinstance(entries, list) else next(v for v in entries.values() if isinstance(v, list))
print(next((e["bytes"] for e in entries if e["id"] == wanted), 0))' "$1"
}

expect_no_drift()
{
	expect_rc 0 "$CHOKEFS" quotacheck "$MNT"
}

# ---- acting as others, and on other file systems ----

# as_uid N CMD...: as uid and gid N, without any other group.
as_uid()
{
	local uid=$1
	shift
	setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"
}

# name_uid N: gives uid N a name where it has none, which fusermount3 asks for. In a mount namespace of one's own.
name_uid()
{
	getent passwd "$1" >/dev/null && return
	cp /etc/passwd "$CHOKE_TMP/passwd"
	echo "choke$1:x:$1:$1::/:/bin/sh" >>"$CHOKE_TMP/passwd"
	mount --bind "$CHOKE_TMP/passwd" /etc/passwd
}

# for_each_fs FUNCTION: runs it with DIR inside a plain directory, then inside a mount. FS: plain, chokefs.
# What must hold for POSIX must hold on both.
for_each_fs()
{
	FS=plain
	DIR=$CHOKE_TMP/plain-$1
	mkdir -p "$DIR"
	chmod 1777 "$DIR"
	"$1"
	FS=chokefs
	mount_choke
	DIR=$MNT
	"$1"
	umount_choke
}

# compile SOURCE PROGRAM [FLAGS...]: a helper in C.
compile()
{
	local source=$1 program=$2
	shift 2
	"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread -o "$program" "$source" "$@"
}
