#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 180
# Ordinary work leaves the same tree on a mount as on the plain file system.
. "$(dirname "$0")/../lib/lib.sh"

# Prints everything about the tree under $1 that a user can see, times of directories left out.
tree_of()
{
	(
		cd "$1"
		find . -mindepth 1 -not -path '*/.git/index' \( -type d -printf '%P %y %m %U:%G %n\n' -o \
			-type l -printf '%P %y %U:%G -> %l\n' -o -printf '%P %y %m %U:%G %n %s %T@\n' \) | sort
		find . -type f -not -path '*/.git/*' -print0 | sort -z | xargs -0 -r sha256sum
	)
}

# A small project with a git history, a Makefile, links, odd names, modes and times.
make_source()
{
	mkdir -p "$1/project/deep/er"
	cd "$1/project"
	printf '#include <stdio.h>\nint add(int a, int b);\nint main(void) { printf("%%d\\n", add(40, 2)); return 0; }\n' >main.c
	printf 'int add(int a, int b) { return a + b; }\n' >add.c
	printf 'sum: main.o add.o\n\t$(CC) -o $@ $^\nclean:\n\trm -f *.o sum\n' >Makefile
	head -c 3000000 /dev/urandom >deep/large
	head -c 12345 /dev/urandom >"deep/er/a name with spaces & ünïcode"
	for i in $(seq 300); do echo "$i" >"deep/er/small.$i"; done
	ln deep/large deep/er/hard
	ln -s ../large deep/er/soft
	ln -s /nowhere deep/dangling
	truncate -s 5000000 deep/sparse
	printf x | dd of=deep/sparse bs=1 seek=4000000 conv=notrunc status=none
	chmod 2755 deep
	chmod 4711 deep/er/small.1
	mkfifo deep/fifo
	touch -d '2001-02-03 04:05:06.789012345' deep/er/small.2
	chown 1000:1001 deep/er/small.3
	setfattr -n user.colour -v blue deep/er/small.4 2>/dev/null || true
	git init -q .
	git add -A . >/dev/null
	git -c user.name=test -c user.email=test@localhost commit -q -m one
	cd "$CHOKE_TMP"
}
make_source "$CHOKE_TMP/source"
(cd "$CHOKE_TMP/source/project" && git rev-parse HEAD) >"$CHOKE_TMP/head"

copy_with_cp()
{
	begin "$FS: cp -a copies a tree as it is"
	cp -a "$CHOKE_TMP/source/project" "$DIR/copy"
	diff <(tree_of "$CHOKE_TMP/source/project") <(tree_of "$DIR/copy") || fail "the copy differs"
}

pack_with_tar()
{
	begin "$FS: tar packs and unpacks a tree as it is"
	cp -a "$CHOKE_TMP/source/project" "$DIR/original"
	mkdir "$DIR/unpacked"
	tar -C "$DIR/original" --xattrs -cf "$DIR/packed.tar" .
	tar -C "$DIR/unpacked" --xattrs -xpf "$DIR/packed.tar"
	diff <(tree_of "$DIR/original") <(tree_of "$DIR/unpacked") || fail "what was unpacked differs"
}

clone_with_git()
{
	begin "$FS: git clones, checks out, commits and finds nothing wrong"
	git -c safe.directory='*' clone -q "$CHOKE_TMP/source/project" "$DIR/clone"
	expect_eq "$(git -C "$DIR/clone" rev-parse HEAD)" "$(cat "$CHOKE_TMP/head")"
	echo more >>"$DIR/clone/add.c"
	git -C "$DIR/clone" -c user.name=test -c user.email=test@localhost commit -q -a -m two
	git -C "$DIR/clone" gc -q
	expect_rc 0 git -C "$DIR/clone" fsck --strict
	expect_eq "$(git -C "$DIR/clone" status --porcelain)" ""
}

build_with_make()
{
	begin "$FS: make builds once, and again only what changed"
	cp -a "$CHOKE_TMP/source/project" "$DIR/made"
	make -s -C "$DIR/made" sum
	expect_eq "$("$DIR/made/sum")" 42
	expect_eq "$(make -C "$DIR/made" sum | grep -c 'up to date')" 1 "rebuilds of an unchanged tree"
	touch "$DIR/made/add.c"
	expect_eq "$(make -C "$DIR/made" sum | grep -c -- ' -c ')" 1 "files compiled after one was touched"
}

remove_all()
{
	begin "$FS: rm -rf leaves nothing, and nothing is charged"
	cp -a "$CHOKE_TMP/source/project" "$DIR/doomed"
	rm -rf "$DIR/doomed"
	expect_eq "$(ls -A "$DIR" | wc -l)" 0 "entries left"
	[ "$FS" = plain ] && return
	expect_eq "$(usage_of 1000)" 0 "usage of uid 1000"
	expect_no_drift
}

survive_remount()
{
	begin "$FS: a tree is the same after a remount"
	cp -a "$CHOKE_TMP/source/project" "$DIR/kept"
	[ "$FS" = plain ] || remount
	diff <(tree_of "$CHOKE_TMP/source/project") <(tree_of "$DIR/kept") || fail "it differs"
	[ "$FS" = plain ] && return
	expect_no_drift
	umount_choke
	diff <(tree_of "$CHOKE_TMP/source/project") <(tree_of "$BACKING/kept") || fail "the backing differs"
	mount_again
}

for work in copy_with_cp pack_with_tar clone_with_git build_with_make remove_all survive_remount; do
	for_each_fs $work
done
