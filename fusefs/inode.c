/* SPDX-License-Identifier: MIT */
/*
 * The inodes that the kernel knows or somebody of ours holds, by node id, and their O_PATH
 * descriptors.
 *
 * The kernel may know a million inodes; a process may have some thousands of descriptors. So an
 * inode is remembered by its file handle, and a descriptor is opened from it when one is needed:
 *
 *      (no descriptor) --open_by_handle_at()--> pinned --last unpin--> idle, oldest first
 *             ^                                    ^                      |        |
 *             |                                    +------- pinned again -+        |
 *             +-------------------- too many are open: the oldest is closed -------+
 *
 * Rules kept here:
 * - a node id never means two files at once. An inode that has lost its last name keeps its
 * descriptor until it is forgotten, and so the backing cannot give its number to another file;
 * - should that happen all the same (somebody worked on the backing beside us), the newcomer takes
 * the place and the counts of the old one, since the kernel forgets by number, and keeps the old
 * one's memory until then: a request may still be using it;
 * - nothing is closed or freed under the table's lock: closing the last descriptor of an unlinked
 * file truncates it.
 *
 * Where the backing has no handles, or we may not use them, every inode keeps its descriptor.
 */
#include "fusefs/private.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sizes.h"

#define FS_FDS_MAX 4096u
#define FS_BUCKETS_MIN 1024u
/* linux/exportfs.h: {u32 ino, u32 generation}, the handle of ext4 and most others */
#define FS_HANDLE_INO32_GEN 1
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
	struct fs_inode *root; /* [I] */
};

/* What tells one file from all others, past ones included. */
struct identity {
	uint64_t nodeid;
	uint64_t ino;
	uint64_t generation;
	bool has_handle;
	union {
		struct file_handle handle;
		char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	};
};

/* ---- identity ---- */

static uint32_t hash_bytes(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 16777619u;
	return hash;
}

static bool handle_is_ino32_gen(const struct file_handle *handle, uint64_t ino)
{
	uint32_t word[2];

	if (handle->handle_type != FS_HANDLE_INO32_GEN || handle->handle_bytes != sizeof(word))
		return false;
	memcpy(word, handle->f_handle, sizeof(word));
	return word[0] == ino;
}

/* The kernel keeps 32 bits of it, and NFS handles too. */
static uint64_t generation_of_handle(const struct file_handle *handle, uint64_t ino)
{
	uint32_t word[2];

	if (!handle_is_ino32_gen(handle, ino))
		return hash_bytes(handle->f_handle, handle->handle_bytes);
	memcpy(word, handle->f_handle, sizeof(word));
	return word[1];
}

/* Without handles: a number that is used again was born again. */
static uint64_t generation_of_birth(int fd)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) < 0 || !(stx.stx_mask & STATX_BTIME))
		return 0;
	int64_t birth[2] = {stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec};
	return hash_bytes(birth, sizeof(birth));
}

static uint64_t nodeid_of(const struct fs *fs, uint64_t ino)
{
	if (fs->inodes->root && ino == fs->inodes->root->ino)
		return FUSE_ROOT_ID;
	return ino == FUSE_ROOT_ID ? (ino | FS_NODEID_ONE_MOVED) : ino;
}

static int read_handle(int fd, struct file_handle *handle)
{
	int mount_id;

	handle->handle_bytes = MAX_HANDLE_SZ;
	return name_to_handle_at(fd, "", handle, &mount_id, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int identify(const struct fs *fs, int fd, const struct stat *st, struct identity *ret_id)
{
	ret_id->ino = st->st_ino;
	ret_id->nodeid = nodeid_of(fs, st->st_ino);
	ret_id->has_handle = fs->inodes->handles;
	if (!ret_id->has_handle) {
		ret_id->generation = generation_of_birth(fd);
		return 0;
	}
	int r = read_handle(fd, &ret_id->handle);
	if (r < 0)
		return r;
	ret_id->generation = generation_of_handle(&ret_id->handle, st->st_ino);
	return 0;
}

static bool identity_is(const struct identity *id, const struct fs_inode *inode)
{
	if (id->generation != inode->generation || id->has_handle != (inode->handle != NULL))
		return false;
	return !id->has_handle ||
	       (id->handle.handle_type == inode->handle->handle_type &&
		id->handle.handle_bytes == inode->handle->handle_bytes &&
		memcmp(id->handle.f_handle, inode->handle->f_handle, id->handle.handle_bytes) == 0);
}

/* ---- an inode's life ---- */

static struct fs_inode *inode_new(const struct identity *id, const struct stat *st)
{
	struct fs_inode *inode = calloc(1, sizeof(*inode));
	pthread_rwlockattr_t attr;

	if (!inode)
		return NULL;
	if (id->has_handle) {
		size_t size = sizeof(id->handle) + id->handle.handle_bytes;
		inode->handle = malloc(size);
		if (!inode->handle) {
			free(inode);
			return NULL;
		}
		memcpy(inode->handle, &id->handle, size);
	}
	list_init(&inode->hash_link);
	list_init(&inode->fd_link);
	inode->nodeid = id->nodeid;
	inode->ino = id->ino;
	inode->generation = id->generation;
	inode->type = st->st_mode & S_IFMT;
	inode->owner = (struct quota_owner){.id = {st->st_uid, st->st_gid}};
	inode->fd = -1;
	/* A stream of getattr must not keep a write waiting for ever. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&inode->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	lock_init(&inode->time_lock);
	return inode;
}

static void inode_free(struct fs_inode *inode)
{
	if (!inode)
		return;
	if (inode->pages)
		wb_file_free(inode->pages);
	if (inode->blocks)
		fs_blocks_free(inode->blocks);
	if (inode->fd >= 0)
		close(inode->fd);
	lock_fini(&inode->time_lock);
	pthread_rwlock_destroy(&inode->lock);
	free(inode->handle);
	free(inode);
}

static void inode_free_cleanup(struct fs_inode **inode)
{
	inode_free(*inode);
}

/* ---- the table ---- */

static struct list *bucket_of(struct list *buckets, size_t nr_buckets, uint64_t nodeid)
{
	uint64_t mixed = nodeid * 0x9e3779b97f4a7c15ull;
	return &buckets[(mixed >> 32) & (nr_buckets - 1)];
}

static struct fs_inode *find_locked(struct fs_inodes *table, uint64_t nodeid)
{
	struct list *bucket = bucket_of(table->buckets, table->nr_buckets, nodeid);
	struct fs_inode *inode;

	lock_assert_held(&table->lock);
	list_for_each (inode, bucket, hash_link)
		if (inode->nodeid == nodeid)
			return inode;
	return NULL;
}

/* Keeps chains short and gives memory back. Without memory they just stay as they are. */
static void resize_locked(struct fs_inodes *table)
{
	size_t want = table->nr_buckets;
	struct fs_inode *inode, *next;

	lock_assert_held(&table->lock);
	if (table->count > table->nr_buckets)
		want = table->nr_buckets * 4;
	else if (table->count < table->nr_buckets / 16 && table->nr_buckets > FS_BUCKETS_MIN)
		want = table->nr_buckets / 4;
	if (want == table->nr_buckets)
		return;
	struct list *buckets = malloc(want * sizeof(*buckets));
	if (!buckets)
		return;
	for (size_t i = 0; i < want; i++)
		list_init(&buckets[i]);
	for (size_t i = 0; i < table->nr_buckets; i++)
		list_for_each_safe (inode, next, &table->buckets[i], hash_link)
			list_move_tail(bucket_of(buckets, want, inode->nodeid), &inode->hash_link);
	free(table->buckets);
	table->buckets = buckets;
	table->nr_buckets = want;
}

static void insert_locked(struct fs_inodes *table, struct fs_inode *inode)
{
	lock_assert_held(&table->lock);
	list_add_head(bucket_of(table->buckets, table->nr_buckets, inode->nodeid),
		      &inode->hash_link);
	table->count++;
	resize_locked(table);
}

/* Takes an inode that nobody needs out of all lists, the one it replaced too. Returns what is to be
 * freed once the lock is given up, linked by replaced. */
static struct fs_inode *drop_unused_locked(struct fs_inodes *table, struct fs_inode *inode)
{
	lock_assert_held(&table->lock);
	if (inode->nlookup > 0 || inode->holds > 0 || inode->fd_users > 0 || inode->stale)
		return NULL;
	list_del(&inode->hash_link);
	list_del(&inode->fd_link);
	if (inode->fd >= 0)
		table->nr_fds--;
	table->count--;
	resize_locked(table);
	if (inode->replaced) {
		inode->replaced->stale = false;
		inode->replaced = drop_unused_locked(table, inode->replaced);
	}
	return inode;
}

static void free_dropped(struct fs_inode *inode)
{
	while (inode) {
		struct fs_inode *next = inode->replaced;
		inode_free(inode);
		inode = next;
	}
}

/* ---- descriptors ---- */

static unsigned fd_limit_of_process(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 256;
	return (unsigned)min_u64(limit.rlim_cur / 4, FS_FDS_MAX);
}

/* Takes the oldest idle descriptor if there are too many, or if @force; the caller closes it
 * without the lock. */
static int evict_locked(struct fs_inodes *table, bool force)
{
	lock_assert_held(&table->lock);
	if (list_is_empty(&table->idle) || (!force && table->nr_fds <= table->fd_limit))
		return -1;
	struct fs_inode *inode = list_first(&table->idle, struct fs_inode, fd_link);
	list_del(&inode->fd_link);
	table->nr_fds--;
	return take_fd(&inode->fd);
}

static void adopt_fd_locked(struct fs_inodes *table, struct fs_inode *inode, int *fd)
{
	lock_assert_held(&table->lock);
	if (inode->fd < 0) {
		inode->fd = take_fd(fd);
		table->nr_fds++;
	}
}

/* Nobody uses the descriptor just now: it may be closed, unless it holds the inode number. */
static void idle_locked(struct fs_inodes *table, struct fs_inode *inode)
{
	lock_assert_held(&table->lock);
	if (inode->fd < 0 || inode->fd_users > 0 || inode->fd_kept || !inode->handle)
		return;
	list_move_tail(&table->idle, &inode->fd_link);
}

static int open_handle(struct fs *fs, struct file_handle *handle)
{
	int fd = open_by_handle_at(fs->backing_fd, handle, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	while (fd < 0 && errno == EMFILE) {
		lock_take(&fs->inodes->lock);
		int victim = evict_locked(fs->inodes, true);
		lock_release(&fs->inodes->lock);
		if (victim < 0)
			return -EMFILE;
		close(victim);
		fd = open_by_handle_at(fs->backing_fd, handle, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

static bool pin_locked(struct fs_inodes *table, struct fs_inode *inode)
{
	lock_assert_held(&table->lock);
	if (inode->fd < 0)
		return false;
	list_del(&inode->fd_link);
	inode->fd_users++;
	return true;
}

int fs_inode_fd(struct fs *fs, struct fs_inode *inode, struct fs_fd *ret_fd)
{
	struct fs_inodes *table = fs->inodes;
	_cleanup_close_ int fd = -1;

	lock_take(&table->lock);
	bool pinned = pin_locked(table, inode);
	lock_release(&table->lock);
	if (!pinned) {
		fd = open_handle(fs, inode->handle);
		if (fd < 0)
			return fd;
		lock_take(&table->lock);
		adopt_fd_locked(table, inode, &fd);
		pin_locked(table, inode);
		lock_release(&table->lock);
	}
	*ret_fd = (struct fs_fd){.fs = fs, .inode = inode, .fd = inode->fd};
	return 0;
}

/* A pin keeps the inode too: a handler may give it up after its reply, on which the kernel may
 * forget at once. */
void fs_fd_release(struct fs_fd *fd)
{
	if (!fd->inode)
		return;
	struct fs_inodes *table = fd->fs->inodes;
	lock_take(&table->lock);
	assert(fd->inode->fd_users > 0);
	fd->inode->fd_users--;
	idle_locked(table, fd->inode);
	struct fs_inode *dropped = drop_unused_locked(table, fd->inode);
	_cleanup_close_ int victim = evict_locked(table, false);
	lock_release(&table->lock);
	free_dropped(dropped);
	fd->inode = NULL;
}

void fs_inode_keep_fd(struct fs *fs, struct fs_inode *inode)
{
	LOCK_SCOPE(&fs->inodes->lock);
	assert(inode->fd_users > 0);
	inode->fd_kept = true;
}

struct fs_fd_path fs_fd_path(int fd)
{
	struct fs_fd_path path;
	snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", fd);
	return path;
}

int fs_inode_reopen(struct fs *fs, struct fs_inode *inode, int flags)
{
	_cleanup_fs_fd_ struct fs_fd fd = {0};
	int r = fs_inode_fd(fs, inode, &fd);

	if (r < 0)
		return r;
	/* The path is a link: O_NOFOLLOW would refuse it. A symbolic link itself is still refused,
	 * with ELOOP. */
	r = open(fs_fd_path(fd.fd).text, (flags & ~O_NOFOLLOW) | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

/* ---- finding, counting ---- */

struct fs_inode *fs_inode_get(struct fs *fs, fuse_ino_t nodeid)
{
	LOCK_SCOPE(&fs->inodes->lock);
	return find_locked(fs->inodes, nodeid);
}

/* The known inode of that identity with one more lookup, or NULL. */
static struct fs_inode *count_known_locked(struct fs_inodes *table, const struct identity *id,
					   int *fd)
{
	struct fs_inode *inode = find_locked(table, id->nodeid);

	if (!inode || !identity_is(id, inode))
		return NULL;
	inode->nlookup++;
	adopt_fd_locked(table, inode, fd);
	idle_locked(table, inode);
	return inode;
}

/* Another file has the number now: the counts of the kernel's forgets go by number. */
static void replace_locked(struct fs_inodes *table, struct fs_inode *old, struct fs_inode *fresh)
{
	lock_assert_held(&table->lock);
	fresh->nlookup += old->nlookup;
	fresh->replaced = old;
	old->nlookup = 0;
	old->stale = true;
	list_del(&old->hash_link);
}

int fs_inode_lookup(struct fs *fs, int fd, const struct stat *st, struct fs_inode **ret_inode)
{
	struct fs_inodes *table = fs->inodes;
	_cleanup_close_ int owned = fd;
	_cleanup_close_ int victim = -1;
	_cleanup_(inode_free_cleanup) struct fs_inode *fresh = NULL;
	struct identity id;
	int r = identify(fs, fd, st, &id);

	if (r < 0)
		return r;
	lock_take(&table->lock);
	struct fs_inode *inode = count_known_locked(table, &id, &owned);
	if (inode)
		victim = evict_locked(table, false);
	lock_release(&table->lock);
	if (inode) {
		*ret_inode = inode;
		return 0;
	}
	fresh = inode_new(&id, st);
	if (!fresh)
		return -ENOMEM;
	LOCK_SCOPE(&table->lock);
	inode = count_known_locked(table, &id, &owned); /* somebody may have been faster */
	if (!inode) {
		inode = take_ptr(fresh);
		inode->nlookup = 1;
		struct fs_inode *old = find_locked(table, id.nodeid);
		if (old)
			replace_locked(table, old, inode);
		adopt_fd_locked(table, inode, &owned);
		idle_locked(table, inode);
		insert_locked(table, inode);
	}
	victim = evict_locked(table, false);
	*ret_inode = inode;
	return 0;
}

void fs_inode_count_lookup(struct fs *fs, struct fs_inode *inode)
{
	LOCK_SCOPE(&fs->inodes->lock);
	inode->nlookup++;
}

void fs_inode_forget(struct fs *fs, struct fs_inode *inode, uint64_t nlookup)
{
	lock_take(&fs->inodes->lock);
	inode->nlookup -= min_u64(nlookup, inode->nlookup);
	struct fs_inode *dropped = drop_unused_locked(fs->inodes, inode);
	lock_release(&fs->inodes->lock);
	free_dropped(dropped);
}

void fs_inode_hold(struct fs *fs, struct fs_inode *inode)
{
	LOCK_SCOPE(&fs->inodes->lock);
	inode->holds++;
}

void fs_inode_unhold(struct fs *fs, struct fs_inode *inode)
{
	lock_take(&fs->inodes->lock);
	assert(inode->holds > 0);
	inode->holds--;
	struct fs_inode *dropped = drop_unused_locked(fs->inodes, inode);
	lock_release(&fs->inodes->lock);
	free_dropped(dropped);
}

uint64_t fs_inodes_count(struct fs *fs)
{
	LOCK_SCOPE(&fs->inodes->lock);
	return fs->inodes->count;
}

unsigned fs_inodes_fds(struct fs *fs)
{
	LOCK_SCOPE(&fs->inodes->lock);
	return fs->inodes->nr_fds;
}

void fs_inodes_set_fd_limit(struct fs *fs, unsigned limit)
{
	struct fs_inodes *table = fs->inodes;
	int victim;

	do {
		lock_take(&table->lock);
		table->fd_limit = limit;
		victim = evict_locked(table, false);
		lock_release(&table->lock);
		if (victim >= 0)
			close(victim);
	} while (victim >= 0);
}

/* All inodes of the table, held. NULL only when there is no memory for the list. */
static struct fs_inode **hold_all(struct fs_inodes *table, size_t *ret_count)
{
	LOCK_SCOPE(&table->lock);
	struct fs_inode **all = malloc((table->count + 1) * sizeof(struct fs_inode *));
	struct fs_inode *inode;
	size_t count = 0;

	if (!all)
		return NULL;
	for (size_t i = 0; i < table->nr_buckets; i++) {
		list_for_each (inode, &table->buckets[i], hash_link) {
			inode->holds++;
			all[count++] = inode;
		}
	}
	*ret_count = count;
	return all;
}

void fs_inodes_each(struct fs *fs, void (*visit)(struct fs_inode *inode, void *context),
		    void *context)
{
	size_t count = 0;
	_cleanup_free_ struct fs_inode **all = hold_all(fs->inodes, &count);

	if (!all)
		abort(); /* some bytes an inode are missing, and who asks cannot do without */
	for (size_t i = 0; i < count; i++) {
		visit(all[i], context);
		fs_inode_unhold(fs, all[i]);
	}
}

/* ---- node ids from before: NFS ---- */

/* Directories are asked for the way up; of other files the backing cannot say where they are, as
 * with any NFS export without subtree_check. */
static bool dir_is_inside(struct fs *fs, int fd, const struct stat *st)
{
	_cleanup_close_ int dir = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat here = *st;

	while (dir >= 0 && here.st_ino != fs->inodes->root->ino) {
		int up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct stat above;
		if (up < 0)
			return false;
		close(dir);
		dir = up;
		if (fstat(dir, &above) < 0 || above.st_dev != fs->backing_dev ||
		    above.st_ino == here.st_ino)
			return false;
		here = above;
	}
	return dir >= 0;
}

static bool is_private(struct fs *fs, uint64_t ino)
{
	struct stat st;
	bool found = false;

	if (fs->private_fd < 0 || fstat(fs->private_fd, &st) < 0)
		return false;
	if (st.st_ino == ino)
		return true;
	int fd = openat(fs->private_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return true;
	}
	for (struct dirent *entry = readdir(dir); entry && !found; entry = readdir(dir))
		found = entry->d_ino == ino && strcmp(entry->d_name, "..") != 0;
	closedir(dir);
	return found;
}

int fs_inode_revive(struct fs *fs, fuse_ino_t nodeid, struct fs_inode **ret_inode)
{
	uint64_t ino = nodeid == (FUSE_ROOT_ID | FS_NODEID_ONE_MOVED) ? FUSE_ROOT_ID : nodeid;
	uint32_t word[2] = {(uint32_t)ino,
			    0}; /* generation 0 fits any; the kernel compares the one we reply */
	struct identity id = {
		.handle = {.handle_bytes = sizeof(word), .handle_type = FS_HANDLE_INO32_GEN}};
	struct stat st;

	if (!fs->inodes->revivable || ino != word[0])
		return -ESTALE;
	memcpy(id.handle.f_handle, word, sizeof(word));
	_cleanup_close_ int fd = open_handle(fs, &id.handle);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != ino || st.st_nlink == 0 ||
	    is_private(fs, ino) || (S_ISDIR(st.st_mode) && !dir_is_inside(fs, fd, &st)))
		return -ESTALE;
	return fs_inode_lookup(fs, take_fd(&fd), &st, ret_inode);
}

/* ---- the beginning and the end ---- */

static void probe_handles(struct fs *fs, int fd, uint64_t ino)
{
	struct identity id;

	if (read_handle(fd, &id.handle) < 0)
		return;
	int again = open_by_handle_at(fs->backing_fd, &id.handle, O_PATH | O_CLOEXEC);
	if (again < 0)
		return;
	close(again);
	fs->inodes->handles = true;
	fs->inodes->revivable = handle_is_ino32_gen(&id.handle, ino);
}

static int root_new(struct fs *fs)
{
	struct fs_inodes *table = fs->inodes;
	_cleanup_close_ int fd = openat(fs->backing_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct identity id;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	probe_handles(fs, fd, st.st_ino);
	int r = identify(fs, fd, &st, &id);
	if (r < 0)
		return r;
	id.nodeid = FUSE_ROOT_ID;
	struct fs_inode *root = inode_new(&id, &st);
	if (!root)
		return -ENOMEM;
	LOCK_SCOPE(&table->lock);
	root->holds = 1;
	root->fd_kept = true;
	adopt_fd_locked(table, root, &fd);
	insert_locked(table, root);
	table->root = root;
	return 0;
}

int fs_inodes_new(struct fs *fs)
{
	struct fs_inodes *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->buckets = malloc(FS_BUCKETS_MIN * sizeof(*table->buckets));
	if (!table->buckets) {
		free(table);
		return -ENOMEM;
	}
	lock_init(&table->lock);
	list_init(&table->idle);
	table->nr_buckets = FS_BUCKETS_MIN;
	for (size_t i = 0; i < table->nr_buckets; i++)
		list_init(&table->buckets[i]);
	table->fd_limit = fd_limit_of_process();
	fs->inodes = table;
	int r = root_new(fs);
	if (r < 0)
		fs_inodes_free(fs);
	return r;
}

void fs_inodes_free(struct fs *fs)
{
	struct fs_inodes *table = fs->inodes;
	struct fs_inode *inode, *next;

	if (!table)
		return;
	for (size_t i = 0; i < table->nr_buckets; i++) {
		list_for_each_safe (inode, next, &table->buckets[i], hash_link) {
			list_del(&inode->hash_link);
			list_del(&inode->fd_link);
			free_dropped(inode);
		}
	}
	free(table->buckets);
	lock_fini(&table->lock);
	free(table);
	fs->inodes = NULL;
}
