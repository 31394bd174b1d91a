/* SPDX-License-Identifier: MIT */
/*
 * The set-user-id and set-group-id bits of a file that is changed.
 *
 * Since we negotiate FUSE_HANDLE_KILLPRIV_V2 (channel.c) clearing them is our business: on write, truncation and an opening
 * that truncates when the kernel says so, which it does when the caller lacks CAP_FSETID; on fallocate and copy_file_range, where the
 * protocol has no room for saying so, unless the caller is root. chown(2) is not here: the backing's kernel does it.
 * setgid goes only from a file that its group may execute; otherwise it once meant mandatory locking.
 *
 * Most files have neither bit, so an inode remembers that it was looked at.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>

static mode_t without_setid(mode_t mode)
{
	mode_t kill = S_ISUID;

	if (mode & S_IXGRP)
		kill |= S_ISGID;
	return mode & ~kill;
}

static int kill_setid(struct fs *fs, struct fs_inode *inode)
{
	_cleanup_fs_fd_ struct fs_fd fd = { 0 };
	struct stat st;

	int r = fs_inode_fd(fs, inode, &fd);
	if (r < 0)
		return r;
	/* Said before looking: a chmod that comes between is then looked at again. */
	atomic_store(&inode->no_setid, true);
	if (fstatat(fd.fd, "", &st, AT_EMPTY_PATH) < 0)
		return -errno;
	mode_t mode = st.st_mode & 07777;
	if (without_setid(mode) == mode)
		return 0;
	if (chmod(fs_fd_path(fd.fd).text, without_setid(mode)) < 0)
		return -errno;
	/* The kernel shows and honours the mode it has cached until it is told: attributes only, so no page lock is waited for. */
	fuse_lowlevel_notify_inval_inode(fs->session, inode->nodeid, -1, 0);
	return 0;
}

int fs_inode_kill_setid(struct fs *fs, struct fs_inode *inode)
{
	if (!fs->channel.killpriv_v2 || !fs_channel_kills_privs() || atomic_load(&inode->no_setid))
		return 0;
	return kill_setid(fs, inode);
}

int fs_inode_kill_setid_of(struct fs *fs, struct fs_inode *inode, fuse_req_t req)
{
	if (!fs->channel.killpriv_v2 || fuse_req_ctx(req)->uid == 0 || atomic_load(&inode->no_setid))
		return 0;
	return kill_setid(fs, inode);
}
