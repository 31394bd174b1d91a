/* SPDX-License-Identifier: MIT */
/*
 * Acting for the caller: whom a new file belongs to, and its umask.
 *
 * Whether the caller may is the kernel's business (default_permissions). What is left is ownership,
 * and the backing does that best, setgid directories and default ACLs included, when the thread
 * that creates has the caller's file-system ids and umask. Both are per thread: setfsuid(2) by
 * nature, the umask once the thread has left the process' shared fs_struct. Capabilities survive a
 * change of fsuid because the daemon has set SECBIT_NO_SETUID_FIXUP.
 */
#include "fusefs/private.h"

#include <sched.h>
#include <sys/fsuid.h>

/* This thread's umask is its own from here on; asked once a thread. */
static bool umask_is_own(void)
{
	static __thread bool own;

	if (!own)
		own = unshare(CLONE_FS) == 0;
	return own;
}

struct fs_creds fs_creds_take(struct fs *fs, fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct fs_creds creds = {.active = umask_is_own()};

	if (creds.active)
		creds.umask = umask(ctx->umask & 0777);
	creds.ids = fs->is_root;
	if (creds.ids) {
		setfsgid(ctx->gid);
		setfsuid(ctx->uid);
	}
	return creds;
}

void fs_creds_restore(struct fs_creds *creds)
{
	if (creds->ids) {
		setfsuid(0);
		setfsgid(0);
	}
	if (creds->active)
		umask(creds->umask);
}

unsigned fs_charge_flags(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid == 0 ? QUOTA_EXEMPT : 0;
}
