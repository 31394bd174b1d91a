/* SPDX-License-Identifier: MIT */
/*
 * What the files of fusefs/ share.
 *
 * Order of locks: fs->freeze, inode->lock, table->lock or inode->time_lock; those of quota/ and writeback/ inside.
 * No lock is held across a reply or the throttle. inode->lock is what NetBSD calls the vnode lock: a refused
 * write in the modes with an undo holds it until the undo is done, its waits included, because that is the pathology.
 */
#ifndef FUSEFS_PRIVATE_H
#define FUSEFS_PRIVATE_H

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/hist.h"
#include "base/list.h"
#include "base/lock.h"
#include "control/control.h"
#include "fusefs/fusefs.h"
#include "quota/quota.h"
#include "writeback/writeback.h"

/** The daemon's own directory in the backing, hidden from the mount: quota.db and the lock file. */
#define FS_PRIVATE_DIR ".chokefs"

enum fs_rollback {
	FS_ROLLBACK_LIST = WB_ROLLBACK_LIST,
	FS_ROLLBACK_BOUNDED = WB_ROLLBACK_BOUNDED,
	FS_ROLLBACK_ORDERED = WB_ROLLBACK_ORDERED,
	FS_ROLLBACK_RESERVE,
};

enum fs_undo {
	FS_UNDO_DEFAULT, /* all for list, bounded, ordered; keep for reserve */
	FS_UNDO_ALL,
	FS_UNDO_KEEP,
};

/** The switches. Read by operations without a lock: each is one aligned word. Changed by settings.c alone. */
struct fs_settings {
	_Atomic int rollback; /* enum fs_rollback */
	_Atomic int undo;     /* enum fs_undo */
	uint32_t block_size;  /* at mount only */
	unsigned workers;     /* at mount only */
	_Atomic int enforce;  /* enum quota_enforce */
	_Atomic int64_t clock_offset;
	struct wb_config wb;  /* [settings lock] */
};

/* ---- operations and their counters (ops.c) ---- */

#define FS_OPS(X)                                                                                  \
	X(lookup) X(forget) X(getattr) X(setattr) X(readlink) X(mknod) X(mkdir) X(unlink) X(rmdir) \
	X(symlink) X(rename) X(link) X(open) X(create) X(read) X(write) X(flush) X(release)        \
	X(fsync) X(opendir) X(readdir) X(readdirplus) X(releasedir) X(fsyncdir) X(statfs)          \
	X(setxattr) X(getxattr) X(listxattr) X(removexattr) X(access) X(fallocate) X(lseek)        \
	X(copy_file_range) X(ioctl)

enum fs_op_id {
#define X(name) FS_OP_##name,
	FS_OPS(X)
#undef X
	FS_OP_COUNT,
};

struct fs_op_stats {
	_Atomic uint64_t bytes;
	_Atomic uint64_t errors;
	struct hist latency;
};

struct fs_inode;
struct fs_inodes;
struct fs_life;

struct fs {
	struct fuse_session *session; /* [I] */
	char *mountpoint;	      /* [I] absolute */
	char *backing;		      /* [I] absolute */
	int backing_fd;		      /* [I] the backing directory, O_RDONLY: for open_by_handle_at() */
	dev_t backing_dev;	      /* [I] */
	uint64_t max_file_size;	      /* [I] the backing's: what the cache took beyond it could never be written */
	dev_t mount_dev;	      /* [I] once mounted */
	int private_fd;		      /* [I] FS_PRIVATE_DIR */
	uid_t mounter;		      /* [I] may change switches, as root may */
	bool is_root;		      /* [I] may act for other users */
	bool read_only;		      /* [I] */
	unsigned max_write;	      /* [I] for the init callback; 0: libfuse's */
	unsigned max_read;	      /* [I] likewise */
	uint64_t start_ns;	      /* [I] */
	struct fs_settings settings;
	struct lock settings_lock;
	struct fs_inodes *inodes;     /* [I] */
	struct wb_cache *cache;	      /* [I] */
	struct quota *quota;	      /* [I] */
	struct control_server *control; /* [I] */
	struct fs_life *life;	      /* [I] how the mount ends: life.c */
	struct {
		uint64_t init_unique; /* of INIT while it is being answered */
		uint32_t offered;     /* its flags */
		bool killpriv_v2;     /* [I] once mounted */
	} channel;		      /* channel.c */
	pthread_rwlock_t freeze;      /* shared by whatever changes a charge; exclusive by quotacheck. Prefers the writer */
	struct fs_op_stats ops[FS_OP_COUNT];
};

/** One operation being served: times itself and counts its outcome at the end of its scope. */
struct fs_op {
	struct fs *fs;
	fuse_req_t req;
	enum fs_op_id id;
	uint64_t start_ns;
	uint64_t bytes;
	int err;
};

struct fs_op fs_op_begin(fuse_req_t req, enum fs_op_id id);
void fs_op_end(struct fs_op *op);
/** Opens a handler: declares @var and counts it when the scope ends. */
#define FS_OP_SCOPE(var, req, name) _cleanup_(fs_op_end) struct fs_op var = fs_op_begin(req, FS_OP_##name)
/** Replies with @err (positive or negative errno, or 0) and notes it. */
void fs_op_reply_err(struct fs_op *op, int err);

extern const struct fuse_lowlevel_ops fs_lowlevel_ops;

static inline void fs_freeze_end(pthread_rwlock_t **lock)
{
	pthread_rwlock_unlock(*lock);
}
/** Opens whatever changes a charge: quotacheck waits for it, and it for quotacheck. */
#define FS_CHARGE_SCOPE(fs)                                                                        \
	_cleanup_(fs_freeze_end) pthread_rwlock_t *charge_scope_ = &(fs)->freeze;                  \
	pthread_rwlock_rdlock(charge_scope_)

/* ---- what libfuse does not hand on (channel.c), and what follows from it (setid.c) ---- */

/** Puts itself between the kernel and libfuse; after the mount, before the loop. 0 or -errno. */
int fs_channel_attach(struct fs *fs);
/** True if the request that this thread serves wants set-id bits cleared. */
bool fs_channel_kills_privs(void);
/** Clears set-id bits if the request being served says so. No lock needed. 0 or -errno. */
int fs_inode_kill_setid(struct fs *fs, struct fs_inode *inode);
/** The same for requests that cannot say so: unless the caller is root. */
int fs_inode_kill_setid_of(struct fs *fs, struct fs_inode *inode, fuse_req_t req);

/* ---- inodes (inode.c) ----
 * A node id is the backing's inode number (the root: FUSE_ROOT_ID), its generation the backing's. While the kernel knows an inode
 * or somebody holds it, it stays in the table; an O_PATH descriptor is opened from its handle when one is needed and kept
 * in a bounded cache. An unlinked inode that is still known keeps a descriptor, so that its number cannot be used again.
 *
 * Locks: I immutable  a atomic  t the table's  l lock  m time_lock
 */
struct fs_inode {
	struct list hash_link; /* [t] */
	uint64_t nodeid;       /* [I] */
	uint64_t ino;	       /* [I] the backing's */
	uint64_t generation;   /* [I] */
	mode_t type;	       /* [I] S_IFMT part */
	uint64_t nlookup;      /* [t] the kernel's count */
	uint64_t holds;	       /* [t] ours: open handles, dirty pages, walks */
	struct file_handle *handle; /* [I] NULL: the backing has none, and fd stays open */
	int fd;		       /* [t] O_PATH, or -1 */
	uint32_t fd_users;     /* [t] pinned by that many scopes, which keep the inode too */
	uint64_t fd_pins;      /* [t] how often it was pinned */
	struct list fd_link;   /* [t] oldest unused first; linked iff fd may be closed */
	struct fs_inode *dir;  /* [t] held: where it can be reopened by name while fd is -1. Without handles: paths.c */
	char *name;	       /* [t] in dir */
	bool fd_kept;	       /* [t] no name left: fd stays open, or the number could be used again */
	bool stale;	       /* [t] its number was taken by another file: kept by the successor's replaced */
	struct fs_inode *replaced; /* [t] whose place this one took, freed with it */
	_Atomic bool no_capability; /* [a] true: has no security.capability for sure. Changed under lock */

	pthread_rwlock_t lock; /* the vnode lock */
	struct quota_owner owner;  /* [l] who is charged */
	uint32_t opens;	       /* [l] handles of regular files */
	bool unlinked;	       /* [l] no name left */
	bool refunded;	       /* [l] unlinked and given back */
	_Atomic bool no_setid; /* [a] known to have no set-id bit that a write would clear; forgotten by chmod */
	struct wb_file *pages; /* [l] regular files, from the first open on; NULL before */
	struct fs_blocks *blocks; /* [l] which blocks are charged; NULL until loaded */

	struct lock time_lock;
	bool times_cached;     /* [m] mtime and ctime here are the true ones, the backing's may be late */
	struct timespec mtime; /* [m] */
	struct timespec ctime; /* [m] */
	bool mtime_late;       /* [m] the backing's mtime is not ours yet, or write-back may still change it */
	uint32_t dirty_runs;   /* [m] dirty() calls whose clean() has not come: each is a hold */
	struct fs *fs;	       /* [l] with pages, for fs_page_ops */
};

int fs_inodes_new(struct fs *fs);   /* root included */
void fs_inodes_free(struct fs *fs); /* forgets all; pages must be clean or given up */

/** The inode of a request's node id; the kernel's own reference keeps it. */
struct fs_inode *fs_inode_get(struct fs *fs, fuse_ino_t nodeid);
/** Finds or makes the inode for what @fd (O_PATH, taken over) refers to with attributes @st, and counts one kernel lookup. */
int fs_inode_lookup(struct fs *fs, int fd, const struct stat *st, struct fs_inode **ret_inode);
void fs_inode_forget(struct fs *fs, struct fs_inode *inode, uint64_t nlookup);
void fs_inode_hold(struct fs *fs, struct fs_inode *inode);
void fs_inode_unhold(struct fs *fs, struct fs_inode *inode);
/** Calls @visit for each inode in the table, held meanwhile. */
void fs_inodes_each(struct fs *fs, void (*visit)(struct fs_inode *inode, void *context), void *context);
uint64_t fs_inodes_count(struct fs *fs);

/** A pinned O_PATH descriptor of an inode. */
struct fs_fd {
	struct fs *fs;
	struct fs_inode *inode;
	int fd;
};
/** 0, or -ESTALE, -EMFILE ... */
int fs_inode_fd(struct fs *fs, struct fs_inode *inode, struct fs_fd *ret_fd);
void fs_fd_release(struct fs_fd *fd);
#define _cleanup_fs_fd_ _cleanup_(fs_fd_release)
/** Opens the inode anew with @flags (through /proc/self/fd). A descriptor or -errno. */
int fs_inode_reopen(struct fs *fs, struct fs_inode *inode, int flags);
/** The path by which calls that want one reach what an O_PATH descriptor refers to, symbolic links themselves included. */
struct fs_fd_path {
	char text[32];
};
struct fs_fd_path fs_fd_path(int fd);

/* ---- attributes (attr.c) ---- */

/** stat(2) of the backing corrected by what is still in the cache: size, blocks, times. The caller holds no lock. */
int fs_inode_stat(struct fs *fs, struct fs_inode *inode, struct stat *ret_st);
/** For a lookup-like reply; the node id, generation and timeouts filled in. */
int fs_inode_entry(struct fs *fs, struct fs_inode *inode, struct fuse_entry_param *ret_entry);
double fs_attr_timeout(struct fs *fs);

/* ---- acting for the caller (creds.c) ---- */

/** Until the end of the scope new files belong to the request's uid and gid and its umask holds. Permissions are the kernel's business
 *  (default_permissions), so capabilities stay. Nothing where the daemon is not root. */
struct fs_creds {
	bool active;  /* the umask was changed */
	bool ids;     /* fsuid and fsgid were */
	mode_t umask; /* the daemon's, to be put back */
};
struct fs_creds fs_creds_take(struct fs *fs, fuse_req_t req);
void fs_creds_restore(struct fs_creds *creds);
#define FS_CREDS_SCOPE(fs, req) _cleanup_(fs_creds_restore) struct fs_creds creds_scope_ = fs_creds_take(fs, req)
/** QUOTA_EXEMPT or 0 for a request. */
unsigned fs_charge_flags(fuse_req_t req);

/* ---- which blocks are charged (blocks.c) ----
 * A bitmap over block_size blocks in chunks, loaded from the backing's extents. Guarded by inode->lock.
 */
struct fs_blocks;

/** An empty map. 0 or -ENOMEM. */
int fs_blocks_new(uint32_t block_size, struct fs_blocks **ret_blocks);
/** Reads the extents of @fd (FIEMAP, or SEEK_DATA where there is none). 0 or -errno. */
int fs_blocks_load(int fd, uint32_t block_size, struct fs_blocks **ret_blocks);
void fs_blocks_free(struct fs_blocks *blocks);
/** How many blocks that touch [off, off+len) are not yet set. */
uint64_t fs_blocks_missing(const struct fs_blocks *blocks, uint64_t off, uint64_t len);
/** How much of [off, off+len) from its start is covered when the first @count missing blocks are granted: bytes, at most len. */
uint64_t fs_blocks_covered(const struct fs_blocks *blocks, uint64_t off, uint64_t len, uint64_t count);
/** Sets all blocks that touch the range; returns how many were not. -ENOMEM changes nothing. */
int fs_blocks_set(struct fs_blocks *blocks, uint64_t off, uint64_t len, uint64_t *ret_added);
/** Clears all blocks that lie wholly in [off, off+len), returns how many were set. */
uint64_t fs_blocks_clear(struct fs_blocks *blocks, uint64_t off, uint64_t len);
uint64_t fs_blocks_count(const struct fs_blocks *blocks);
uint32_t fs_blocks_unit(const struct fs_blocks *blocks); /* the block size */
/** The next set (@set) or unset block at or after @off: its start (or @off inside it). UINT64_MAX when none is set. */
uint64_t fs_blocks_next(const struct fs_blocks *blocks, uint64_t off, bool set);
/** Counts without a map: bytes charged for the file behind @fd. */
int fs_blocks_measure(int fd, uint32_t block_size, uint64_t *ret_bytes);
/** Whether what is allocated without data counts on the file system of @fd. It does not where that cannot be seen, or is done unasked. */
bool fs_blocks_charges_allocation(int fd);
/** Makes the map of the blocks that touch [off, off+len) what the backing holds there. 0, or -errno and nothing changed. */
int fs_blocks_reload(struct fs_blocks *blocks, int fd, uint64_t off, uint64_t len);

/* ---- charging (charge.c) ---- */

/** Loads inode->blocks if they are not. inode->lock held exclusively. */
int fs_inode_load_blocks_locked(struct fs *fs, struct fs_inode *inode);
/** Makes inode->pages if there are none; counts a user of its descriptors. inode->lock held exclusively. */
int fs_inode_open_pages_locked(struct fs *fs, struct fs_inode *inode);
/** What the owner pays for the data: by the map, or measured where there is none yet. inode->lock held. 0 or -errno. */
int fs_inode_charged_bytes_locked(struct fs *fs, struct fs_inode *inode, uint64_t *ret_bytes);
/** Ends what fs_inode_open_pages_locked() began; the last user of an unlinked file refunds it. inode->lock held exclusively. */
void fs_inode_close_pages_locked(struct fs *fs, struct fs_inode *inode);
/** Charges what the backing really holds in the blocks that touch a range, after flushing it: the way back to exactness when an
 *  operation failed half-way or the backing decided for itself. inode->lock held exclusively, pages open, blocks loaded. */
int fs_inode_resync_locked(struct fs *fs, struct fs_inode *inode, uint64_t off, uint64_t len);
/** fs_inode_open_pages_locked() with a descriptor that is there already, which is taken over. */
int fs_inode_adopt_pages_locked(struct fs *fs, struct fs_inode *inode, int fd);
/** Charges one new inode to who will own it, before it is made. The group: the parent's where that has setgid. 0 or -EDQUOT... */
int fs_charge_inode(struct fs *fs, fuse_req_t req, const struct stat *parent, struct quota_charge *ret_charge);
/** Called when an inode has lost its last name: refunds now, or at the last close. The caller holds FS_CHARGE_SCOPE since before the
 *  name went, or quotacheck could count it in between; no other lock. */
void fs_inode_unlinked(struct fs *fs, struct fs_inode *inode);
/** chown(2) of the charge and of the backing. No lock held. */
int fs_inode_chown(struct fs *fs, struct fs_inode *inode, uid_t uid, gid_t gid, unsigned flags);
/** truncate(2), both ways, with refund. No lock held. */
int fs_inode_truncate(struct fs *fs, struct fs_inode *inode, uint64_t size);
extern const struct wb_file_ops fs_page_ops; /* owner: the fs_inode */

/** Notes that the contents changed now: mtime and ctime. inode->lock held. */
void fs_inode_touch(struct fs_inode *inode);
/** Writes the true mtime to the backing if that may be late; while pages are dirty it stays cached here too. 0 or -errno. */
int fs_inode_settle_times(struct fs_inode *inode);

/* An open regular file: fi->fh. While it exists inode->pages stays, with descriptors. */
struct fs_handle {
	struct fs_inode *inode; /* [I] held */
	uint32_t error_seen;	/* guarded by the file of pages: see wb_file_error() */
};
static inline struct fs_handle *fs_handle_of(const struct fuse_file_info *fi)
{
	return (struct fs_handle *)(uintptr_t)fi->fh;
}

static inline pthread_rwlock_t *fs_inode_lock(struct fs_inode *inode, bool exclusive)
{
	if (exclusive)
		pthread_rwlock_wrlock(&inode->lock);
	else
		pthread_rwlock_rdlock(&inode->lock);
	return &inode->lock;
}
/** Takes inode->lock until the end of the scope. */
#define FS_INODE_SCOPE(inode, exclusive)                                                           \
	_cleanup_(fs_freeze_end) pthread_rwlock_t *LOCK_CONCAT(inode_scope_, __LINE__) =           \
		fs_inode_lock(inode, exclusive)

/* names.c, for file.c: checks that a child may be named so ("." "..", FS_PRIVATE_DIR in the root: -EPERM). 0 or -errno. */
int fs_name_check(struct fs *fs, struct fs_inode *parent, const char *name);

/* ---- recount and check (recount.c) ---- */

/** Counts the tree under @backing_fd into fs->quota, with a progress line where stderr is a terminal, and records the block size
 *  it was counted with. */
int fs_recount(struct fs *fs);
/** Whether usage must be counted anew at a mount: the last one did not end cleanly, or had another block size. */
bool fs_recount_is_due(struct fs *fs, bool clean);
/** Compares a frozen live mount with its tree. */
int fs_check_live(struct fs *fs, bool repair, struct fs_check_result *ret_result);
void fs_check_result_fini(struct fs_check_result *result);

/* ---- settings, control, statistics (settings.c, control.c, stats.c) ---- */

/** Sets one switch from text. Before fs->cache exists the value is only stored. 0, or -EINVAL with *@ret_why (heap) one line that names key and value. */
int fs_settings_set(struct fs *fs, const char *key, const char *value, bool at_mount, char **ret_why);
struct fs_switch {
	const char *key, *value;
};
/** Sets all of @changes or none. As fs_settings_set() otherwise; -ERANGE when the cache refuses. */
int fs_settings_change(struct fs *fs, const struct fs_switch *changes, size_t nr_changes, bool at_mount,
		       char **ret_why);
/** {KEY: VALUE...} as strings. */
json_object *fs_settings_json(struct fs *fs);
void fs_settings_init(struct fs *fs);
bool fs_settings_is_key(const char *key);
json_object *fs_stats_json(struct fs *fs);
void fs_stats_reset(struct fs *fs);
json_object *fs_control_handle(void *context, const struct control_peer *peer, json_object *request);

/* ---- the daemon's life (options.c, place.c, life.c, mount.c) ---- */

/** What -o says beside the switches, which go straight into fs->settings. */
struct fs_options {
	char *kernel;	  /* heap: options for libfuse's mount, joined; NULL: none */
	bool allow_other; /* open to other users than the mounter */
};

/** Parses "key=value,...", sets switches and fs->read_only, max_write, max_read. 0, or -EINVAL with the reason said. */
int fs_options_parse(struct fs *fs, const char *text, struct fs_options *ret_options);
void fs_options_fini(struct fs_options *options);

/** Checks that @backing may be served at @mountpoint and opens it: fills backing, mountpoint and their descriptors in.
 *  0, or the exit code, the reason said. */
int fs_place_open(struct fs *fs, const char *backing, const char *mountpoint);

/** Locks the backing behind @private_fd for one daemon (@mountpoint) or one check (NULL). A daemon that is only
 *  draining is waited for. *@ret_fd holds the lock. 0, -EBUSY or -errno, the reason said. */
/** The largest size that the file system of @dir_fd gives a file, found by trying. -errno when nothing can be made there. */
int fs_place_max_file_size(int dir_fd, uint64_t *ret_size);
int fs_place_lock(int private_fd, const char *backing, const char *mountpoint, int *ret_fd);

/** Starts the thread that takes signals and saves usage from time to time. The caller is the thread that will run the
 *  loop, with every signal blocked. 0 or -errno. */
int fs_life_new(struct fs *fs, struct fs_life **ret_life);
/** Serves requests until the mount is gone or a signal ends it. 0 or -errno. */
int fs_life_loop(struct fs_life *life);
/** After the loop: writes back what is dirty and tells whoever waits in fs_life_umount(). Returns how many files could not be
 *  written; they have been named. */
size_t fs_life_drain(struct fs_life *life);
/** Stops the thread; every fs_life_umount() must have returned. */
void fs_life_free(struct fs_life *life);

/** Writes back what is dirty now; *@ret_paths (an array of strings) names what failed. 0 or -errno. */
int fs_drain(struct fs *fs, json_object **ret_paths);
/** Drains, unmounts and waits for the end of the loop and its drain; 0 with *@ret_paths and *@ret_error as fs_drain() has them,
 *  or -errno (-EBUSY: in use) and the mount is still there. */
int fs_life_umount(struct fs_life *life, json_object **ret_paths, int *ret_error);

#include "fusefs/handlers.h"

#endif
