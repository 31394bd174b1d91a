#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
# What a refused write leaves behind and what it costs, counted page by page, in each mode.
. "$(dirname "$0")/../lib/lib.sh"

u=1000
mib=64 # the victim's limit: 16384 pages
pages=$((mib * 256))

# refuse FILE SIZE COUNT [OFFSET]: as the user, COUNT writes of SIZE bytes at OFFSET or the end. Prints each distinct outcome.
refuse()
{
	as_uid $u python3 -c '
import errno, os, sys
path, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(path, os.O_WRONLY)
outcomes = {}
for _ in range(count):
    off = int(sys.argv[4]) if len(sys.argv) > 4 else os.fstat(fd).st_size
    try:
        outcome = os.pwrite(fd, b"n" * size, off)
    except OSError as error:
        outcome = errno.errorcode[error.errno]
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
print(" ".join(f"{k}:{v}" for k, v in outcomes.items()))' "$@"
}

# fill KIB: a victim file of that size, under a limit of $mib.
fill()
{
	setquota_kib $u 0 $((mib * 1024))
	as_uid $u dd if=/dev/zero of="$MNT/victim" bs=64K count=$(($1 / 64)) status=none
	expect_eq "$(usage_of $u)" $(($1 * 1024)) "usage"
	stat_reset
}

for mode in list bounded ordered; do
	mount_choke -o rollback=$mode,cache_bytes=512M
	fill $((mib * 1024))
	created=$(stat_json cache.created)

	begin "$mode: with no room at all each write is refused and nothing changes"
	expect_eq "$(refuse "$MNT/victim" 524288 20)" "EDQUOT:20"
	expect_eq "$(stat -c %s "$MNT/victim")" $((mib << 20)) "size"
	expect_eq "$(usage_of $u)" $((mib << 20)) "usage"
	expect_eq "$(stat_json rollback.count)" 20 "rollbacks"
	expect_eq "$(stat_json rollback.pages_freed)" 0 "pages freed"
	visited=$(stat_json rollback.pages_visited)
	note "$visited pages visited by 20 refused writes"
	if [ $mode = list ]; then
		begin "list: each refused write visited every resident page"
		expect_eq "$visited" $((20 * pages)) "pages visited"
		expect_eq "$(stat_json rollback.by_list)" 20 "by list"
	else
		begin "$mode: a refused write visited at most four times its own pages and one"
		expect_num "$visited" -le $((20 * (4 * 128 + 1))) "pages visited"
		expect_eq "$(stat_json rollback.by_list)" 0 "by list"
	fi
	expect_eq "$(stat_json cache.pages)" $pages "resident pages"
	note "$(($(stat_json cache.created) - created)) pages created meanwhile"

	begin "$mode: with room for a part, each write allocates, copies, is refused and rolled back, for ever"
	as_uid $u truncate -s $(((mib << 20) - 200704)) "$MNT/victim"
	before=$(usage_of $u)
	size=$(stat -c %s "$MNT/victim")
	sum=$(sha256sum <"$MNT/victim")
	stat_reset
	expect_eq "$(refuse "$MNT/victim" 524288 10000)" "EDQUOT:10000"
	expect_eq "$(usage_of $u)" "$before" "usage"
	expect_eq "$(stat -c %s "$MNT/victim")" "$size" "size"
	expect_eq "$(stat_json rollback.count)" 10000 "rollbacks"
	expect_num "$(stat_json rollback.pages_freed)" -eq $((10000 * 49)) "pages freed"
	expect_eq "$(sha256sum <"$MNT/victim")" "$sum" "contents"
	expect_no_drift

	begin "$mode: a refusal in the middle leaves old or new bytes below the old size, and the size"
	as_uid $u truncate -s 0 "$MNT/victim"
	as_uid $u dd if=/dev/zero of="$MNT/victim" bs=64K count=8 status=none
	setquota_kib $u 0 520
	expect_eq "$(refuse "$MNT/victim" 524288 1 262144)" "EDQUOT:1"
	expect_eq "$(stat -c %s "$MNT/victim")" 524288 "size"
	expect_eq "$(tr -d '\0n' <"$MNT/victim" | wc -c)" 0 "bytes that are neither old nor new"
	expect_eq "$(head -c 262144 "$MNT/victim" | tr -d '\0' | wc -c)" 0 "new bytes before the range"

	begin "$mode: the backing agrees after unmounting"
	umount_choke
	expect_eq "$(stat -c %s "$BACKING/victim")" 524288 "size on the backing"
	expect_rc 0 "$CHOKEFS" quotacheck "$BACKING"
done

begin "reserve: a refused write creates no page, visits none and undoes nothing"
mount_choke -o rollback=reserve,cache_bytes=512M
fill $((mib * 1024))
created=$(stat_json cache.created)
expect_eq "$(refuse "$MNT/victim" 524288 500)" "EDQUOT:500"
expect_eq "$(stat_json rollback.count)" 0 "rollbacks"
expect_eq "$(stat_json rollback.pages_visited)" 0 "pages visited"
expect_eq "$(stat_json cache.created)" "$created" "pages created"
expect_num "$(stat_json quota.refused_blocks)" -ge 500 "refusals"

begin "reserve: what fits of a write stays, and is all that is ever written"
as_uid $u truncate -s $(((mib << 20) - 200704)) "$MNT/victim"
expect_eq "$(refuse "$MNT/victim" 524288 3)" "200704:1 EDQUOT:2"
expect_eq "$(stat -c %s "$MNT/victim")" $((mib << 20)) "size"

begin "reserve with undo=all refuses the whole write"
tune undo=all
as_uid $u truncate -s $(((mib << 20) - 200704)) "$MNT/victim"
expect_eq "$(refuse "$MNT/victim" 524288 3)" "EDQUOT:3"
expect_eq "$(stat -c %s "$MNT/victim")" $(((mib << 20) - 200704)) "size"

begin "list with undo=keep keeps what fitted"
tune rollback=list undo=keep
expect_eq "$(refuse "$MNT/victim" 524288 3)" "200704:1 EDQUOT:2"
expect_no_drift
umount_choke

# With blocks of 64 KiB a refused write that ends inside a block had claimed the whole of it: the pages beyond
# the end of the write must go too, or they would be found by the next extension of the file.
begin "bounded: no page is left beyond the old size after a refusal that ends inside a block"
mount_choke -o rollback=bounded,block_size=64K,cache_bytes=512M
setquota_kib $u 0 1024
as_uid $u dd if=/dev/zero of="$MNT/victim" bs=64K count=12 status=none
resident=$(stat_json cache.pages)
for size in 270000 262145 327679 300000; do
	expect_eq "$(refuse "$MNT/victim" $size 1)" "EDQUOT:1"
	expect_eq "$(stat_json cache.pages)" "$resident" "resident pages after a refused write of $size"
done
as_uid $u truncate -s 1200000 "$MNT/victim"
expect_eq "$(tail -c +786433 "$MNT/victim" | tr -d '\0' | wc -c)" 0 "bytes of refused writes in the extension"
umount_choke

begin "modes can be changed between any two writes"
mount_choke -o cache_bytes=512M
fill $((mib * 1024))
for mode in list ordered bounded reserve list; do
	tune rollback=$mode undo=all
	expect_eq "$(refuse "$MNT/victim" 524288 3)" "EDQUOT:3"
done
expect_eq "$(stat_json rollback.by_list)" 6 "by list"
umount_choke
