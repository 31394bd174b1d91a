/* SPDX-License-Identifier: MIT */
/*
 * The inodes that the kernel knows or somebody of ours holds, by node id.
 *
 * Rules kept here:
 * - a node id never means two files at once. An inode that has lost its last name keeps its
 *   descriptor until it is forgotten, and so the backing cannot give its number to another file;
 * - should that happen all the same (somebody worked on the backing beside us), the newcomer takes
 *   the place and the counts of the old one, since the kernel forgets by number, and keeps the old
 *   one's memory until then: a request may still be using it;
 * - nothing is closed or freed under the table's lock: closing the last descriptor of an unlinked
 *   file truncates it.
 *
 * Descriptors are fds.c's business, identity identity.c's.
 */
#include "fusefs/inodes.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"

#define FS_BUCKETS_MIN 1024u

/* ---- an inode's life ---- */

static struct fs_inode *inode_new(const struct fs_identity *id, const struct stat *st)
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
	inode_free(inode->replaced);
	if (inode->pages)
		wb_file_free(inode->pages);
	if (inode->blocks)
		fs_blocks_free(inode->blocks);
	if (inode->fd >= 0)
		close(inode->fd);
	lock_fini(&inode->time_lock);
	pthread_rwlock_destroy(&inode->lock);
	free(inode->handle);
	free(inode->name);
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

struct fs_inode *fs_inodes_find_locked(struct fs_inodes *table, uint64_t nodeid)
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

void fs_inode_drop_locked(struct fs_inodes *table, struct fs_inode *inode, struct list *dropped)
{
	lock_assert_held(&table->lock);
	if (inode->nlookup > 0 || inode->holds > 0 || inode->fd_users > 0 || inode->stale)
		return;
	list_move_tail(dropped, &inode->hash_link);
	list_del(&inode->fd_link);
	if (inode->fd >= 0)
		table->nr_fds--;
	table->count--;
	resize_locked(table);
	if (inode->replaced) {
		struct fs_inode *replaced = take_ptr(inode->replaced);
		replaced->stale = false;
		fs_inode_drop_locked(table, replaced, dropped);
	}
	fs_path_forget_locked(table, inode, dropped);
}

void fs_inodes_free_dropped(struct list *dropped)
{
	struct fs_inode *inode, *next;

	list_for_each_safe (inode, next, dropped, hash_link)
		inode_free(inode);
}

/* ---- finding, counting ---- */

struct fs_inode *fs_inode_get(struct fs *fs, fuse_ino_t nodeid)
{
	LOCK_SCOPE(&fs->inodes->lock);
	return fs_inodes_find_locked(fs->inodes, nodeid);
}

/* The known inode of that identity with one more lookup, or NULL. */
static struct fs_inode *count_known_locked(struct fs_inodes *table, const struct fs_identity *id,
					   int *fd, struct list *dropped)
{
	struct fs_inode *inode = fs_inodes_find_locked(table, id->nodeid);

	if (!inode || !fs_identity_is(id, inode))
		return NULL;
	inode->nlookup++;
	fs_fd_adopt_locked(table, inode, fd, dropped);
	fs_fd_idle_locked(table, inode);
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

static void insert_new_locked(struct fs_inodes *table, struct fs_inode *inode, int *fd,
			      struct list *dropped)
{
	struct fs_inode *old = fs_inodes_find_locked(table, inode->nodeid);

	inode->nlookup = 1;
	if (old)
		replace_locked(table, old, inode);
	fs_fd_adopt_locked(table, inode, fd, dropped);
	fs_fd_idle_locked(table, inode);
	insert_locked(table, inode);
}

/* Counts a lookup of the known inode, or of *@fresh, which is taken over then. NULL: not known, and
 * no fresh one. */
static struct fs_inode *count_or_insert(struct fs *fs, const struct fs_identity *id, int *fd,
					struct fs_inode **fresh)
{
	struct fs_inodes *table = fs->inodes;
	struct list dropped;

	list_init(&dropped);
	lock_take(&table->lock);
	struct fs_inode *inode = count_known_locked(table, id, fd, &dropped);
	if (!inode && *fresh) {
		inode = take_ptr(*fresh);
		insert_new_locked(table, inode, fd, &dropped);
	}
	_cleanup_close_ int victim = fs_fd_evict_locked(table, false);
	lock_release(&table->lock);
	fs_inodes_free_dropped(&dropped);
	return inode;
}

int fs_inode_lookup(struct fs *fs, int fd, const struct stat *st, struct fs_inode **ret_inode)
{
	_cleanup_close_ int owned = fd;
	_cleanup_(inode_free_cleanup) struct fs_inode *fresh = NULL;
	struct fs_identity id;
	int r = fs_identify(fs, fd, st, &id);

	if (r < 0)
		return r;
	struct fs_inode *inode = count_or_insert(fs, &id, &owned, &fresh);
	if (!inode) {
		fresh = inode_new(&id, st);
		if (!fresh)
			return -ENOMEM;
		/* Somebody may have been faster. */
		inode = count_or_insert(fs, &id, &owned, &fresh);
	}
	fs_paths_reclaim(fs);
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
	struct list dropped;

	list_init(&dropped);
	lock_take(&fs->inodes->lock);
	inode->nlookup -= min_u64(nlookup, inode->nlookup);
	fs_inode_drop_locked(fs->inodes, inode, &dropped);
	lock_release(&fs->inodes->lock);
	fs_inodes_free_dropped(&dropped);
}

void fs_inode_hold(struct fs *fs, struct fs_inode *inode)
{
	LOCK_SCOPE(&fs->inodes->lock);
	inode->holds++;
}

void fs_inode_unhold(struct fs *fs, struct fs_inode *inode)
{
	struct list dropped;

	list_init(&dropped);
	lock_take(&fs->inodes->lock);
	assert(inode->holds > 0);
	inode->holds--;
	fs_inode_drop_locked(fs->inodes, inode, &dropped);
	lock_release(&fs->inodes->lock);
	fs_inodes_free_dropped(&dropped);
}

uint64_t fs_inodes_count(struct fs *fs)
{
	LOCK_SCOPE(&fs->inodes->lock);
	return fs->inodes->count;
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

/* ---- the beginning and the end ---- */

/* Whether inodes can be reopened by handle, and how else. */
static void probe_handles(struct fs *fs, int fd, uint64_t ino)
{
	struct fs_identity id;

	if (fs_handle_read(fd, &id.handle) < 0)
		return;
	int again = open_by_handle_at(fs->backing_fd, &id.handle, O_PATH | O_CLOEXEC);
	if (again < 0)
		return;
	close(again);
	fs->inodes->handles = true;
	fs->inodes->revivable = fs_handle_is_ino32_gen(&id.handle, ino);
}

static int root_new(struct fs *fs)
{
	struct fs_inodes *table = fs->inodes;
	_cleanup_close_ int fd = openat(fs->backing_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct fs_identity id;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	probe_handles(fs, fd, st.st_ino);
	if (!table->handles) {
		char path[PATH_MAX + 1] = "";
		if (readlink(fs_fd_path(fd).text, path, PATH_MAX) < 0)
			return -errno;
		table->path = strdup(strcmp(path, "/") == 0 ? "" : path);
		if (!table->path)
			return -ENOMEM;
	}
	int r = fs_identify(fs, fd, &st, &id);
	if (r < 0)
		return r;
	id.nodeid = FUSE_ROOT_ID;
	struct fs_inode *root = inode_new(&id, &st);
	if (!root)
		return -ENOMEM;
	LOCK_SCOPE(&table->lock);
	root->holds = 1;
	root->fd = take_fd(&fd);
	root->fd_kept = true;
	table->nr_fds++;
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
	table->fd_limit = fs_fd_limit_of_process();
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
			inode_free(inode);
		}
	}
	free(table->buckets);
	free(table->path);
	lock_fini(&table->lock);
	free(table);
	fs->inodes = NULL;
}
