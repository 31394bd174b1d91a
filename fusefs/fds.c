/* SPDX-License-Identifier: MIT */
/*
 * The O_PATH descriptors of inodes: opened when one is needed, kept in a bounded cache.
 *
 * The kernel may know a million inodes; a process may have some thousands of descriptors. So an
 *inode is remembered by its file handle, and a descriptor is opened from it when one is needed:
 *
 *	(no descriptor) --open_by_handle_at()--> pinned --last unpin--> idle, oldest first
 *	       ^                                    ^                      |        |
 *	       |                                    +------- pinned again -+        |
 *	       +-------------------- too many are open: the oldest is closed -------+
 *
 * What has lost its last name is never idle: its descriptor holds the number. Where the backing has
 *no handles, or we may not use them, paths.c does the closing and the opening again.
 */
#include "fusefs/inodes.h"

#include <assert.h>
#include <errno.h>
#include <sys/resource.h>

#include "base/sizes.h"

#define FS_FDS_MAX 4096u

unsigned fs_fd_limit_of_process(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 256;
	return (unsigned)min_u64(limit.rlim_cur / 4, FS_FDS_MAX);
}

int fs_fd_evict_locked(struct fs_inodes *table, bool force)
{
	lock_assert_held(&table->lock);
	if (!table->handles || list_is_empty(&table->idle) ||
	    (!force && table->nr_fds <= table->fd_limit))
		return -1;
	struct fs_inode *inode = list_first(&table->idle, struct fs_inode, fd_link);
	list_del(&inode->fd_link);
	table->nr_fds--;
	return take_fd(&inode->fd);
}

void fs_fd_adopt_locked(struct fs_inodes *table, struct fs_inode *inode, int *fd,
			struct list *dropped)
{
	lock_assert_held(&table->lock);
	if (inode->fd >= 0)
		return;
	inode->fd = take_fd(fd);
	table->nr_fds++;
	fs_path_forget_locked(table, inode, dropped);
}

void fs_fd_idle_locked(struct fs_inodes *table, struct fs_inode *inode)
{
	lock_assert_held(&table->lock);
	if (inode->fd >= 0 && inode->fd_users == 0 && !inode->fd_kept)
		list_move_tail(&table->idle, &inode->fd_link);
}

int fs_handle_open(struct fs *fs, struct file_handle *handle)
{
	int fd = open_by_handle_at(fs->backing_fd, handle, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	while (fd < 0 && errno == EMFILE) {
		lock_take(&fs->inodes->lock);
		int victim = fs_fd_evict_locked(fs->inodes, true);
		lock_release(&fs->inodes->lock);
		if (victim < 0)
			return -EMFILE;
		close(victim);
		fd = open_by_handle_at(fs->backing_fd, handle, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

bool fs_fd_pin_locked(struct fs_inodes *table, struct fs_inode *inode)
{
	lock_assert_held(&table->lock);
	if (inode->fd < 0)
		return false;
	list_del(&inode->fd_link);
	inode->fd_users++;
	inode->fd_pins++;
	return true;
}

/* Opens and pins what has no descriptor. -EAGAIN: look again. */
static int open_and_pin(struct fs *fs, struct fs_inode *inode)
{
	struct fs_inodes *table = fs->inodes;
	struct list dropped;
	_cleanup_close_ int fd =
		inode->handle ? fs_handle_open(fs, inode->handle) : fs_path_open(fs, inode);

	if (fd < 0)
		return fd;
	list_init(&dropped);
	lock_take(&table->lock);
	fs_fd_adopt_locked(table, inode, &fd, &dropped);
	fs_fd_pin_locked(table, inode);
	lock_release(&table->lock);
	fs_inodes_free_dropped(&dropped);
	return 0;
}

int fs_inode_fd(struct fs *fs, struct fs_inode *inode, struct fs_fd *ret_fd)
{
	struct fs_inodes *table = fs->inodes;

	for (;;) {
		lock_take(&table->lock);
		bool pinned = fs_fd_pin_locked(table, inode);
		lock_release(&table->lock);
		int r = pinned ? 0 : open_and_pin(fs, inode);
		if (r == 0)
			break;
		if (r != -EAGAIN)
			return r;
	}
	*ret_fd = (struct fs_fd){.fs = fs, .inode = inode, .fd = inode->fd};
	return 0;
}

/* A pin keeps the inode too: a handler may give it up after its reply, on which the kernel may
 * forget at once. */
void fs_fd_release(struct fs_fd *fd)
{
	struct list dropped;

	if (!fd->inode)
		return;
	struct fs_inodes *table = fd->fs->inodes;
	list_init(&dropped);
	lock_take(&table->lock);
	assert(fd->inode->fd_users > 0);
	fd->inode->fd_users--;
	fs_fd_idle_locked(table, fd->inode);
	fs_inode_drop_locked(table, fd->inode, &dropped);
	_cleanup_close_ int victim = fs_fd_evict_locked(table, false);
	lock_release(&table->lock);
	fs_inodes_free_dropped(&dropped);
	fd->inode = NULL;
	fs_paths_reclaim(fd->fs);
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
		victim = fs_fd_evict_locked(table, false);
		lock_release(&table->lock);
		if (victim >= 0)
			close(victim);
	} while (victim >= 0);
	fs_paths_reclaim(fs);
}
