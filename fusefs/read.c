/* SPDX-License-Identifier: MIT */
/*
 * One read(2): the reply is made from the pages themselves.
 *
 * The pages are pinned under the shared inode lock, so a reader of a file whose refused write is being undone waits for it, as it
 * would for the vnode lock, and whoever changes the backing's bytes beside the cache (range.c) has it to himself. The
 * reply is sent without it.
 */
#include "fusefs/private.h"

#include <errno.h>

static int read_pages(struct fs_inode *inode, uint64_t off, size_t size, struct wb_read *ret_read)
{
	FS_INODE_SCOPE(inode, false);
	return wb_file_read(inode->pages, off, size, ret_read);
}

void fs_do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	FS_OP_SCOPE(op, req, read);
	struct wb_read read;

	int r = off < 0 ? -EINVAL : read_pages(fs_handle_of(fi)->inode, (uint64_t)off, size, &read);
	if (r < 0) {
		fs_op_reply_err(&op, r);
		return;
	}
	op.bytes = read.len;
	fuse_reply_iov(req, read.iov, (int)read.nr_iov);
	wb_read_release(&read);
}
