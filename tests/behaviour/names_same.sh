#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
# Owners, modes, ACLs, attributes, links and renames come out the same as on the plain file system, errors included.
. "$(dirname "$0")/../lib/lib.sh"

say() { stat -c '%n %a %u %g %h %F' "$@"; }
# As uid 1000 without other groups, in a shell.
user() { as_uid 1000 sh -c "$1"; }

owners_and_modes()
{
	echo hi >f
	ln f g
	mknod c c 1 3
	mknod b b 7 200
	chmod 4755 f
	chown 1000:1000 f
	say ./*
	chmod 2755 f
	setpriv --reuid 1000 --regid 1001 --clear-groups chmod 2755 f
	say f
	user 'umask 077; echo x >mine; mkdir minedir; ln -s x minelink; mkfifo minepipe'
	mkdir setgid
	chgrp 100 setgid
	chmod 2777 setgid
	user 'umask 027; cd setgid; echo x >f; mkdir d; ln -s x l; mkfifo p; cp /bin/true t; chmod 2755 t'
	chmod 2755 setgid/t
	user 'setfacl -m u:33:rx setgid/t'
	say mine* setgid/*
	chmod 4755 mine
	user 'echo more >>mine'
	say mine
	user 'touch setgid/../c; chown 0 mine; chgrp 100 mine; chmod 777 g; rm f'
	mkdir -m 1777 sticky
	touch sticky/root
	user 'rm -f sticky/root'
}

attributes_and_acls()
{
	mkdir acl
	setfacl -d -m u:1000:rwx,g:100:rx,o::- acl
	setfacl -m u:1000:rwx acl
	user 'umask 077; echo x >acl/f; mkdir acl/d; mkfifo acl/p'
	getfacl -RP --omit-header acl
	chmod 700 acl/f
	getfacl -P --omit-header acl/f
	user 'cat acl/f'
	as_uid 1001 cat acl/f
	echo x >f
	ln -s f s
	setfattr -n user.x -v hello f
	setfattr -n trusted.x -v hello f
	getfattr -d -m - f
	user 'getfattr -d -m - f'
	setfattr -h -n user.x -v hello s
	setfattr -h -n trusted.x -v hello s
	getfattr -h -d -m - s
	setfattr -x user.x f
	setfattr -x user.x f
	cp /bin/true program
	setcap cap_net_raw+ep program
	getcap program
	chmod 777 program
	user 'echo >>program'
	getcap program
	chattr +d f && lsattr f | cut -c7
	touch -d @12345.678901234 f
	touch -h -d @99 s
	touch -a -d @7 program
	stat -c '%n %.9Y' f s && stat -c '%n %X' program
}

links_and_renames()
{
	mkdir d e
	touch e/x a b
	ln a a2
	ln -s nowhere s
	ln -P s s2
	readlink s2
	say a s2
	mv -T d e
	rm e/x
	mv -T d e
	mv -T a a2 # one file: nothing happens
	mv -T b a2
	say ./*
	mv e e/below
	mkdir e
	rmdir e/none
	ln e f
	mkdir "$(printf 'x%.0s' $(seq 256))"
	user 'ln a2 l; mv a2 c; rm s'
	cd e && rmdir ../e && touch below
	cd ..
}

# In a directory of its own, every error noted and none fatal.
run()
{
	(
		set +eE
		trap - ERR
		cd "$1" || exit
		"$2" 2>&1
		find . -mindepth 1 -printf '%P %m %U %G %n %y %l\n' | sort
	)
}

mount_choke
for part in owners_and_modes attributes_and_acls links_and_renames; do
	begin "${part//_/ } are the same"
	mkdir -p "$CHOKE_TMP/plain/$part" "$MNT/$part"
	chmod 777 "$CHOKE_TMP/plain/$part" "$MNT/$part"
	run "$CHOKE_TMP/plain/$part" $part >"$CHOKE_TMP/plain.txt"
	run "$MNT/$part" $part >"$CHOKE_TMP/mount.txt"
	expect_num "$(wc -l <"$CHOKE_TMP/plain.txt")" -ge 15 "lines to compare"
	expect_rc 0 diff "$CHOKE_TMP/plain.txt" "$CHOKE_TMP/mount.txt"
done
begin "all of it is charged"
expect_no_drift
umount_choke
