/* SPDX-License-Identifier: MIT */
/*
 * Node ids from before: an NFS client comes back with a handle that the kernel and we have
 * forgotten.
 *
 * Node id and generation are the backing's, so the file can be found by a handle made up from the
 * number; the kernel compares the generation we reply with the client's. That works on ext4 and
 * what descends from it; elsewhere such a handle is stale. The number could be that of any file of
 * the backing's file system: directories outside the backing directory and our own files are
 * refused.
 */
#include "fusefs/inodes.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

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
	struct fs_identity id = {
		.handle = {.handle_bytes = sizeof(word), .handle_type = FS_HANDLE_INO32_GEN}};
	struct stat st;

	if (!fs->inodes->revivable || ino != word[0])
		return -ESTALE;
	memcpy(id.handle.f_handle, word, sizeof(word));
	_cleanup_close_ int fd = fs_handle_open(fs, &id.handle);
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != ino || st.st_nlink == 0 ||
	    is_private(fs, ino) || (S_ISDIR(st.st_mode) && !dir_is_inside(fs, fd, &st)))
		return -ESTALE;
	return fs_inode_lookup(fs, take_fd(&fd), &st, ret_inode);
}
