/* SPDX-License-Identifier: MIT */
/* Counting the backing tree: for recount.c. */
#ifndef FUSEFS_TREE_H
#define FUSEFS_TREE_H

#include "fusefs/private.h"

struct fs_tree {
	int root_fd;
	uint32_t block_size;
	struct quota *quota; /* counted into */
	/* Bytes of a file that the backing cannot tell yet; true if it knows. May be NULL. */
	bool (*known)(void *context, uint64_t ino, uint64_t *ret_bytes);
	void *context;
	dev_t dev;	 /* out */
	uint64_t inodes; /* out */
};

/** 0, or -errno with one line said that names the file. */
int fs_tree_count(struct fs_tree *tree);

#endif
