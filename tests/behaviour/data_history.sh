#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
# Usage, maps and the backing's extents agree exactly after any history of data operations, in every mode.
# Arguments: mount options to try instead of all.
. "$(dirname "$0")/../lib/lib.sh"

HISTORY=$(dirname "$0")/data_history.py
seed=${CHOKE_SEED:-1}
steps=${CHOKE_STEPS:-120}

# history OPTIONS: one random history on a fresh mount, with and without room.
history()
{
	begin "a random history leaves no drift and no wrong byte with $1"
	seed=$((seed + 1))
	mount_choke -o "$1"
	setquota_kib 1000 0 700
	python3 "$HISTORY" run "$MNT" "$CHOKEFS" "$seed" "$steps" "$CHOKE_TMP/state" ||
		fail "history with seed $seed"
	umount_choke
	python3 "$HISTORY" verify "$BACKING" "$CHOKE_TMP/state" || fail "verify with seed $seed"
	expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
}

modes=${*:-rollback=reserve,cache_bytes=8M rollback=list,device=rate=200M:latency=1ms,completion=batch}
if [ $# -eq 0 ]; then
	for block_size in 4K 16K 64K; do
		for rollback in reserve list bounded ordered; do
			for undo in all keep; do
				modes+=" rollback=$rollback,undo=$undo,block_size=$block_size"
			done
		done
	done
fi
for mode in $modes; do
	history "$mode"
done
