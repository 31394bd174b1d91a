/* SPDX-License-Identifier: MIT */
/*
 * The table of operations, what we ask of the kernel, and the bookkeeping around every request.
 *
 * Locks (POSIX and flock) are not in the table: the kernel keeps them, since nobody else uses the
 * mount.
 */
#include "fusefs/inodes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

#define FS_MAX_WRITE (1u << 20)
#define FS_MAX_BACKGROUND 64u

struct fs_op fs_op_begin(fuse_req_t req, enum fs_op_id id)
{
	return (struct fs_op){
		.fs = fuse_req_userdata(req), .req = req, .id = id, .start_ns = clock_now_ns()};
}

void fs_op_end(struct fs_op *op)
{
	struct fs_op_stats *stats = &op->fs->ops[op->id];

	hist_add(&stats->latency, clock_now_ns() - op->start_ns);
	if (op->bytes > 0)
		atomic_fetch_add_explicit(&stats->bytes, op->bytes, memory_order_relaxed);
	if (op->err != 0)
		atomic_fetch_add_explicit(&stats->errors, 1, memory_order_relaxed);
}

void fs_op_reply_err(struct fs_op *op, int err)
{
	op->err = abs(err);
	fuse_reply_err(op->req, op->err);
}

void fs_op_reply_entry(struct fs_op *op, struct fs_inode *inode)
{
	struct fuse_entry_param entry;
	int r = fs_inode_entry(op->fs, inode, &entry);

	if (r < 0)
		fs_op_reply_err(op, r);
	/* After a reply that arrived the kernel may forget the inode at once: it must not be looked
	 * at any more. */
	if (r < 0 || fuse_reply_entry(op->req, &entry) != 0)
		fs_inode_forget(op->fs, inode, 1);
}

static void want(struct fuse_conn_info *conn, unsigned caps)
{
	conn->want |= conn->capable & caps;
}

/* The kernel says what it can do, we say what of it we want. */
static void start(void *userdata, struct fuse_conn_info *conn)
{
	const struct fs *fs = userdata;

	/* POSIX_ACL: the kernel checks ACLs, and hands them down raw. DONT_MASK: default ACLs
	 * override the umask, which only the backing can know. ATOMIC_O_TRUNC: open truncates.
	 * CACHE_SYMLINKS: a link's target never changes. */
	want(conn, FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
			   FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_DONT_MASK |
			   FUSE_CAP_POSIX_ACL | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
			   FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_IOCTL_DIR);
	/* Our cache is the one under test. The kernel takes care of setuid bits and of locks.
	 * Nothing changes behind the kernel's back, so a new mtime is no reason to drop its pages.
	 */
	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV |
				  FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_FLOCK_LOCKS |
				  FUSE_CAP_POSIX_LOCKS | FUSE_CAP_SPLICE_READ);
	conn->max_write =
		fs->max_write > 0 && fs->max_write < FS_MAX_WRITE ? fs->max_write : FS_MAX_WRITE;
	if (fs->max_read > 0)
		conn->max_read = fs->max_read;
	conn->max_background = FS_MAX_BACKGROUND;
	conn->congestion_threshold = FS_MAX_BACKGROUND * 3 / 4;
	conn->time_gran = 1;
}

const struct fuse_lowlevel_ops fs_lowlevel_ops = {
	.init = start,
	.lookup = fs_do_lookup,
	.forget = fs_do_forget,
	.forget_multi = fs_do_forget_multi,
	.getattr = fs_do_getattr,
	.setattr = fs_do_setattr,
	.readlink = fs_do_readlink,
	.mknod = fs_do_mknod,
	.mkdir = fs_do_mkdir,
	.unlink = fs_do_unlink,
	.rmdir = fs_do_rmdir,
	.symlink = fs_do_symlink,
	.rename = fs_do_rename,
	.link = fs_do_link,
	.open = fs_do_open,
	.create = fs_do_create,
	.read = fs_do_read,
	.write = fs_do_write,
	.flush = fs_do_flush,
	.release = fs_do_release,
	.fsync = fs_do_fsync,
	.opendir = fs_do_opendir,
	.readdir = fs_do_readdir,
	.readdirplus = fs_do_readdirplus,
	.releasedir = fs_do_releasedir,
	.fsyncdir = fs_do_fsyncdir,
	.statfs = fs_do_statfs,
	.setxattr = fs_do_setxattr,
	.getxattr = fs_do_getxattr,
	.listxattr = fs_do_listxattr,
	.removexattr = fs_do_removexattr,
	.access = fs_do_access,
	.fallocate = fs_do_fallocate,
	.lseek = fs_do_lseek,
	.copy_file_range = fs_do_copy_file_range,
	.ioctl = fs_do_ioctl,
};
