/* SPDX-License-Identifier: MIT */
/* What the files around the table of inodes share: inode.c, identity.c, fds.c, paths.c, revive.c.
 */
#ifndef FUSEFS_INODES_H
#define FUSEFS_INODES_H

#include <fcntl.h>

#include "fusefs/private.h"

/* linux/exportfs.h: {u32 ino, u32 generation}, the handle of ext4 and most others */
#define FS_HANDLE_INO32_GEN 1
/* A file that has the root's node id for a number, and is not the root. */
#define FS_NODEID_ONE_MOVED (1ull << 63)

struct fs_inodes {
	struct lock lock;
	struct list *buckets;  /* [t] heads of hash_link */
	size_t nr_buckets;     /* [t] a power of two */
	uint64_t count;        /* [t] */
	struct list idle;      /* [t] descriptors that may be closed, oldest first */
	unsigned nr_fds;       /* [t] */
	unsigned fd_limit;     /* [t] */
	bool handles;          /* [I] inodes can be reopened by handle */
	bool revivable;        /* [I] a handle can be made up from a node id */
	char *path;            /* [I] the backing as /proc/self/fd shows it, without handles */
	struct fs_inode *root; /* [I] */
};

/* ---- identity.c ---- */

/** What tells one file from all others, past ones included. */
struct fs_identity {
	uint64_t nodeid;
	uint64_t ino;
	uint64_t generation;
	bool has_handle;
	union {
		struct file_handle handle;
		char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	};
};

/** 0 or -errno. */
int fs_identify(const struct fs *fs, int fd, const struct stat *st, struct fs_identity *ret_id);
uint64_t fs_nodeid_of(const struct fs_inodes *table, uint64_t ino);
bool fs_identity_is(const struct fs_identity *id, const struct fs_inode *inode);
/** @handle has room for MAX_HANDLE_SZ. 0 or -errno. */
int fs_handle_read(int fd, struct file_handle *handle);
/** Whether it is made of the inode number and a generation, and of nothing else. */
bool fs_handle_is_ino32_gen(const struct file_handle *handle, uint64_t ino);

/* ---- inode.c ---- */

/** Counts one more kernel lookup of an inode somebody holds. */
void fs_inode_count_lookup(struct fs *fs, struct fs_inode *inode);

struct fs_inode *fs_inodes_find_locked(struct fs_inodes *table, uint64_t nodeid);
/** Moves @inode to @dropped if nobody needs it, and those that only it needed. */
void fs_inode_drop_locked(struct fs_inodes *table, struct fs_inode *inode, struct list *dropped);
/** Frees what was dropped; without the table's lock. */
void fs_inodes_free_dropped(struct list *dropped);

/* ---- fds.c ---- */

/** The last name is gone: the descriptor stays open as long as the inode is known. It is pinned. */
void fs_inode_keep_fd(struct fs *fs, struct fs_inode *inode);
/** Descriptors the table has open now. */
unsigned fs_inodes_fds(struct fs *fs);
/** Lowers the number of descriptors kept open beside those in use; the default comes from
 * RLIMIT_NOFILE. */
void fs_inodes_set_fd_limit(struct fs *fs, unsigned limit);

unsigned fs_fd_limit_of_process(void);
/** Takes the oldest idle descriptor that a handle can bring back, if there are too many or if
 * @force; the caller closes it without the lock. -1: none. */
int fs_fd_evict_locked(struct fs_inodes *table, bool force);
/** Takes over *@fd unless there is one already; see fs_path_forget_locked(). */
void fs_fd_adopt_locked(struct fs_inodes *table, struct fs_inode *inode, int *fd,
			struct list *dropped);
/** Nobody uses the descriptor just now: it may be closed, unless it holds the inode number. */
void fs_fd_idle_locked(struct fs_inodes *table, struct fs_inode *inode);
bool fs_fd_pin_locked(struct fs_inodes *table, struct fs_inode *inode);
/** An O_PATH descriptor or -errno. */
int fs_handle_open(struct fs *fs, struct file_handle *handle);

/* ---- paths.c: without handles ---- */

/** Closes the oldest idle descriptors while there are too many. No lock held. */
void fs_paths_reclaim(struct fs *fs);
/** An O_PATH descriptor of an inode that had been closed; -EAGAIN: it has one again; -errno. */
int fs_path_open(struct fs *fs, struct fs_inode *inode);
/** The inode has a descriptor: where it was is no longer needed. Its directory may come to
 * @dropped. */
void fs_path_forget_locked(struct fs_inodes *table, struct fs_inode *inode, struct list *dropped);

/* ---- revive.c, attr.c, ops.c ---- */

/** As fs_inode_lookup() for the inode of a node id that the table no longer knows: NFS handles
 * outlive the daemon. 0 or -ESTALE. */
int fs_inode_revive(struct fs *fs, fuse_ino_t nodeid, struct fs_inode **ret_inode);
/** Notes that something but the contents changed now: ctime, where it is not the backing's. */
void fs_inode_touch_ctime(struct fs_inode *inode);
/** Replies with the entry of an inode whose lookup was counted, which is given back when the reply
 * fails. */
void fs_op_reply_entry(struct fs_op *op, struct fs_inode *inode);

#endif
