/* SPDX-License-Identifier: MIT */
/*
 * The handlers of FUSE requests, one per operation, as ops.c lists them. Each replies exactly once, on every path.
 *
 * Data: file.c, read.c, write.c, range.c. Names and attributes: names.c, dir.c, attr.c, xattr.c.
 */
#ifndef FUSEFS_HANDLERS_H
#define FUSEFS_HANDLERS_H

#include "fusefs/private.h"


void fs_do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void fs_do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_do_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi);
void fs_do_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_do_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void fs_do_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi);
void fs_do_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void fs_do_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
			   fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len, int flags);

void fs_do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_do_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void fs_do_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void fs_do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void fs_do_readlink(fuse_req_t req, fuse_ino_t ino);
void fs_do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void fs_do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void fs_do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_do_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name);
void fs_do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
		  unsigned flags);
void fs_do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname);
void fs_do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_do_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_do_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void fs_do_statfs(fuse_req_t req, fuse_ino_t ino);
void fs_do_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void fs_do_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void fs_do_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void fs_do_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void fs_do_access(fuse_req_t req, fuse_ino_t ino, int mask);
void fs_do_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi, unsigned flags,
		 const void *in_buf, size_t in_size, size_t out_size);

/** Finds the child @name of the directory open as @dirfd and counts one kernel lookup. 0, -ENOENT, -EXDEV (another file system
 *  is mounted there), -errno. */
int fs_name_lookup(struct fs *fs, int dirfd, const char *name, struct fs_inode **ret_inode);

#endif
