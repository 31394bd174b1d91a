/* SPDX-License-Identifier: MIT */
/*
 * What tells one file from all others: its file handle where the backing has them, else number and
 * time of birth.
 *
 * The generation goes to the kernel and from there to NFS clients, so it must be the same after a
 * restart and another one when the number is used again.
 */
#include "fusefs/inodes.h"

#include <errno.h>
#include <string.h>

static uint32_t hash_bytes(const void *bytes, size_t len)
{
	const unsigned char *p = bytes;
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 16777619u;
	return hash;
}

bool fs_handle_is_ino32_gen(const struct file_handle *handle, uint64_t ino)
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

	if (!fs_handle_is_ino32_gen(handle, ino))
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

uint64_t fs_nodeid_of(const struct fs_inodes *table, uint64_t ino)
{
	if (table->root && ino == table->root->ino)
		return FUSE_ROOT_ID;
	return ino == FUSE_ROOT_ID ? (ino | FS_NODEID_ONE_MOVED) : ino;
}

int fs_handle_read(int fd, struct file_handle *handle)
{
	int mount_id;

	handle->handle_bytes = MAX_HANDLE_SZ;
	return name_to_handle_at(fd, "", handle, &mount_id, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int fs_identify(const struct fs *fs, int fd, const struct stat *st, struct fs_identity *ret_id)
{
	ret_id->ino = st->st_ino;
	ret_id->nodeid = fs_nodeid_of(fs->inodes, st->st_ino);
	ret_id->has_handle = fs->inodes->handles;
	if (!ret_id->has_handle) {
		ret_id->generation = generation_of_birth(fd);
		return 0;
	}
	int r = fs_handle_read(fd, &ret_id->handle);
	if (r < 0)
		return r;
	ret_id->generation = generation_of_handle(&ret_id->handle, st->st_ino);
	return 0;
}

bool fs_identity_is(const struct fs_identity *id, const struct fs_inode *inode)
{
	if (id->generation != inode->generation || id->has_handle != (inode->handle != NULL))
		return false;
	return !id->has_handle ||
	       (id->handle.handle_type == inode->handle->handle_type &&
		id->handle.handle_bytes == inode->handle->handle_bytes &&
		memcmp(id->handle.f_handle, inode->handle->f_handle, id->handle.handle_bytes) == 0);
}
