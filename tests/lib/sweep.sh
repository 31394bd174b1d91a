# SPDX-License-Identifier: MIT
#
# Removes what a test may have left under one directory: mounts first, then daemons. For bash, to be sourced.
#
# Nothing is found by a name that others might share: a mount by its path, a daemon by a path in its arguments.

# Prints the mount points under directory $1, innermost first.
mounts_under()
{
	awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r
}

# Prints the pids of chokefs daemons with an argument under directory $1 (or equal to it).
daemons_under()
{
	local proc
	for proc in /proc/[0-9]*; do
		case $(readlink "$proc/exe" 2>/dev/null) in
		*/chokefs | */chokefs\ \(deleted\)) ;;
		*) continue ;;
		esac
		if tr '\0' '\n' <"$proc/cmdline" 2>/dev/null | grep -qE "^$1(/|\$)"; then
			echo "${proc#/proc/}"
		fi
	done
}

# Ends the mount at $1 although it may be stuck: aborting the connection wakes whoever waits on it.
mount_force_off()
{
	local dev
	dev=$(awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo | tail -n 1)
	timeout 20 umount "$1" 2>/dev/null && return
	[ ! -e "/sys/fs/fuse/connections/${dev#*:}/abort" ] ||
		echo 1 >"/sys/fs/fuse/connections/${dev#*:}/abort"
	umount -l "$1" 2>/dev/null || true
}

# Cleans up under $1. Fails if something would not go.
sweep()
{
	local at pid tries
	while IFS= read -r at; do
		mount_force_off "$at"
	done < <(mounts_under "$1")
	for tries in $(seq 1 50); do
		[ -n "$(daemons_under "$1")" ] || break
		sleep 0.1
	done
	for pid in $(daemons_under "$1"); do
		kill -KILL "$pid" 2>/dev/null || true
		tries=stuck
	done
	[ -z "$(mounts_under "$1")" ] && [ "$tries" != stuck ]
}
