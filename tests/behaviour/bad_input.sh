#!/bin/bash
# SPDX-License-Identifier: MIT
# Bad input is one line that names the value at fault, the right status, and nothing half mounted.
. "$(dirname "$0")/../lib/lib.sh"

# refused STATUS TEXT CMD...: one line on stderr with TEXT, nothing on stdout, that status, and no new mount.
refused()
{
	local want=$1 text=$2 got=0 mounts said
	shift 2
	mounts=$(mounts_under "$CHOKE_TMP" | wc -l)
	"$@" >"$CHOKE_TMP/out" 2>"$CHOKE_TMP/err" || got=$?
	said=$(cat "$CHOKE_TMP/err")
	expect_eq "$got" "$want" "status of $* (it said: $said)"
	expect_eq "$(wc -l <"$CHOKE_TMP/err")" 1 "lines on stderr of $* ($said)"
	expect_eq "$(wc -c <"$CHOKE_TMP/out")" 0 "bytes on stdout of $*"
	[[ $said == "chokefs: "* ]] || fail "does not begin with 'chokefs: ': $said"
	[[ $said == *"$text"* ]] || fail "does not name '$text': $said: $*"
	expect_eq "$(mounts_under "$CHOKE_TMP" | wc -l)" "$mounts" "mounts after $*"
}

b=$CHOKE_TMP/backing
m=$CHOKE_TMP/mnt
mkdir "$b" "$m"
touch "$CHOKE_TMP/file"

begin "unknown commands, options, keys and values of mount"
refused 2 frobnicate "$CHOKEFS" frobnicate
refused 2 "--frob" "$CHOKEFS" mount --frob "$b" "$m"
refused 2 frob "$CHOKEFS" mount -o frob=1 "$b" "$m"
refused 2 sideways "$CHOKEFS" mount -o rollback=sideways "$b" "$m"
refused 2 12Q "$CHOKEFS" mount -o cache_bytes=12Q "$b" "$m"
refused 2 -5 "$CHOKEFS" mount -o workers=-5 "$b" "$m"
refused 2 3K "$CHOKEFS" mount -o block_size=3K "$b" "$m"
refused 2 fast "$CHOKEFS" mount -o device=fast "$b" "$m"
refused 2 "rate=x" "$CHOKEFS" mount -o device=rate=x "$b" "$m"
refused 2 rollback "$CHOKEFS" mount -o rollback "$b" "$m"
refused 2 "" "$CHOKEFS" mount "$b"
refused 2 "" "$CHOKEFS" mount "$b" "$m" extra

begin "a backing that is missing, a file, or one with the mount point"
refused 2 "$CHOKE_TMP/gone" "$CHOKEFS" mount "$CHOKE_TMP/gone" "$m"
refused 2 "$CHOKE_TMP/file" "$CHOKEFS" mount "$CHOKE_TMP/file" "$m"
refused 2 "$b" "$CHOKEFS" mount "$b" "$b"
mkdir "$b/inside"
refused 2 "$b" "$CHOKEFS" mount "$b" "$b/inside"
mkdir "$m/inside"
refused 2 "$m/inside" "$CHOKEFS" mount "$m/inside" "$m"
rmdir "$m/inside"
refused 2 "$CHOKE_TMP/gone" "$CHOKEFS" mount "$b" "$CHOKE_TMP/gone"
refused 2 "$CHOKE_TMP/file" "$CHOKEFS" mount "$b" "$CHOKE_TMP/file"

begin "a backing that is served already, and a mount point that is busy"
"$CHOKEFS" mount "$b" "$m"
mkdir "$CHOKE_TMP/other" "$CHOKE_TMP/mnt2"
refused 1 "$b" "$CHOKEFS" mount "$b" "$CHOKE_TMP/mnt2"
refused 1 "$m" "$CHOKEFS" mount "$CHOKE_TMP/other" "$m"
refused 1 "$b" "$CHOKEFS" quotacheck "$b"

begin "unknown keys, values, users and sizes of a live mount"
refused 2 frob "$CHOKEFS" tune "$m" frob=1
refused 2 frob "$CHOKEFS" tune "$m" frob
refused 2 sideways "$CHOKEFS" tune "$m" rollback=sideways
refused 2 block_size "$CHOKEFS" tune "$m" block_size=8K
refused 2 workers "$CHOKEFS" tune "$m" workers=3
refused 2 12Q "$CHOKEFS" setquota -u 1000 0 12Q 0 0 "$m"
refused 2 -5 "$CHOKEFS" setquota -u 1000 0 -5 0 0 "$m"
refused 2 nobody-of-that-name "$CHOKEFS" setquota -u nobody-of-that-name 0 1 0 0 "$m"
refused 2 nobody-of-that-name "$CHOKEFS" quota -u nobody-of-that-name "$m"
refused 2 4294967295 "$CHOKEFS" setquota -u 4294967295 0 1 0 0 "$m"
refused 2 7fortnights "$CHOKEFS" setquota -u -t 7fortnights 0 "$m"
refused 2 "--frob" "$CHOKEFS" stats "$m" --frob
refused 2 "--frob" "$CHOKEFS" repquota --frob "$m"

begin "a tune with one bad pair changes nothing"
refused 2 sideways "$CHOKEFS" tune "$m" congestion=skip rollback=sideways
MNT=$m
expect_eq "$(stat_json settings.congestion)" block
"$CHOKEFS" umount "$m"

begin "commands on what is not a chokefs mount"
for command in "tune" "stats" "repquota -u" "umount" "quota" "setquota -u 1000 0 0 0 0"; do
	refused 2 "$m" "$CHOKEFS" $command "$m"
	refused 2 "$CHOKE_TMP/gone" "$CHOKEFS" $command "$CHOKE_TMP/gone"
	refused 2 /proc "$CHOKEFS" $command /proc
done

begin "unknown trials and trial files"
refused 2 no-such-trial "$CHOKEFS" trial run no-such-trial
refused 2 frob "$CHOKEFS" trial frob
refused 2 no-such-key "$CHOKEFS" trial run overquota --set no-such-key=1
printf '[trial]\nname = x\n[frob]\nx = 1\n' >"$CHOKE_TMP/bad.trial"
refused 2 frob "$CHOKEFS" trial run "$CHOKE_TMP/bad.trial"

begin "help and version are no errors"
expect_rc 0 "$CHOKEFS" --version
[[ $OUT == *0.* ]] || fail "no version: $OUT"
expect_rc 0 "$CHOKEFS" --help
for command in mount umount tune stats quota repquota setquota quotacheck trial; do
	[[ $OUT == *$command* ]] || fail "--help does not tell of $command"
done
for command in mount umount tune stats quota repquota setquota quotacheck trial; do
	expect_rc 0 "$CHOKEFS" help $command
	[ -n "$OUT" ] || fail "help $command says nothing"
done
