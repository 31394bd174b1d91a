/* SPDX-License-Identifier: MIT */
/*
 * The ordered index of a file's pages: a red-black tree whose links are page numbers.
 *
 * A tree embedded in the pages costs the same for a dense file and for one page every gigabyte, which neither a
 * radix tree nor an array does, and `ordered` and the flusher's search for neighbours need its order. The hint makes
 * sequential access cheap: it is the page last found, and its successor is tried before the root. For random access to many pages,
 * where every level of the tree is a cache miss, there is the look-aside: a table without chains, shared by all files,
 * whose entries are only believed after a look at the page they name. Nothing is ever removed from it.
 *
 * Textbook algorithm (Cormen et al., Introduction to Algorithms, chapter 13), with 0 for nil.
 */
#include "writeback/private.h"

static bool is_red(struct wb_cache *cache, uint32_t id)
{
	return id && wb_page_flag(wb_page(cache, id), WB_PAGE_RED);
}

static void set_red(struct wb_cache *cache, uint32_t id, bool red)
{
	if (id)
		wb_page_set_flag(wb_page(cache, id), WB_PAGE_RED, red);
}

static _Atomic uint32_t *aside_slot(struct wb_file *file, uint64_t index)
{
	struct wb_arena *arena = &file->cache->arena;
	uint64_t hash = (index + ((uintptr_t)file >> 6) * 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;

	return &arena->aside[(hash >> 32) & atomic_load_explicit(&arena->aside_mask, memory_order_relaxed)];
}

/* What the look-aside says, if that is still so; 0: nothing. */
static uint32_t aside_find(struct wb_file *file, _Atomic uint32_t *slot, uint64_t index)
{
	uint32_t id = atomic_load_explicit(slot, memory_order_relaxed);
	struct wb_page *page = wb_page(file->cache, id);

	/* A page that names this file is on it, since its lock is held. */
	if (!id || atomic_load_explicit(&page->file, memory_order_relaxed) != file || page->index != index)
		return 0;
	return id;
}

uint32_t wb_index_next(struct wb_cache *cache, uint32_t id)
{
	struct wb_page *page = wb_page(cache, id);

	if (page->right) {
		for (id = page->right; wb_page(cache, id)->left;)
			id = wb_page(cache, id)->left;
		return id;
	}
	uint32_t parent = page->parent;
	while (parent && wb_page(cache, parent)->right == id) {
		id = parent;
		parent = wb_page(cache, id)->parent;
	}
	return parent;
}

uint32_t wb_index_prev(struct wb_cache *cache, uint32_t id)
{
	struct wb_page *page = wb_page(cache, id);

	if (page->left) {
		for (id = page->left; wb_page(cache, id)->right;)
			id = wb_page(cache, id)->right;
		return id;
	}
	uint32_t parent = page->parent;
	while (parent && wb_page(cache, parent)->left == id) {
		id = parent;
		parent = wb_page(cache, id)->parent;
	}
	return parent;
}

uint32_t wb_index_find_locked(struct wb_file *file, uint64_t index)
{
	struct wb_cache *cache = file->cache;

	lock_assert_held(&file->lock);
	if (file->hint) {
		struct wb_page *hint = wb_page(cache, file->hint);
		if (hint->index == index)
			return file->hint;
		if (hint->index + 1 == index) {
			uint32_t next = wb_index_next(cache, file->hint);
			if (!next || wb_page(cache, next)->index != index)
				return 0;
			return file->hint = next;
		}
	}
	_Atomic uint32_t *slot = aside_slot(file, index);
	uint32_t id = aside_find(file, slot, index);
	if (id)
		return file->hint = id;
	uint32_t parent = 0;
	for (id = file->root; id;) {
		struct wb_page *page = wb_page(cache, id);
		if (page->index == index) {
			atomic_store_explicit(slot, id, memory_order_relaxed);
			return file->hint = id;
		}
		parent = id;
		id = index < page->index ? page->left : page->right;
	}
	file->gap_index = index;
	file->gap_parent = parent;
	return 0;
}

uint32_t wb_index_from_locked(struct wb_file *file, uint64_t index)
{
	struct wb_cache *cache = file->cache;
	uint32_t found = 0;

	lock_assert_held(&file->lock);
	for (uint32_t id = file->root; id;) {
		struct wb_page *page = wb_page(cache, id);
		if (page->index >= index) {
			found = id;
			id = page->left;
		} else {
			id = page->right;
		}
	}
	return found;
}

/* Puts @child where @id was under @id's parent. */
static void replace_child(struct wb_file *file, uint32_t id, uint32_t child)
{
	struct wb_cache *cache = file->cache;
	uint32_t parent = wb_page(cache, id)->parent;

	if (!parent)
		file->root = child;
	else if (wb_page(cache, parent)->left == id)
		wb_page(cache, parent)->left = child;
	else
		wb_page(cache, parent)->right = child;
	if (child)
		wb_page(cache, child)->parent = parent;
}

static void rotate(struct wb_file *file, uint32_t id, bool to_left)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);
	uint32_t up = to_left ? page->right : page->left;
	struct wb_page *upper = wb_page(cache, up);
	uint32_t middle = to_left ? upper->left : upper->right;

	replace_child(file, id, up);
	if (to_left) {
		page->right = middle;
		upper->left = id;
	} else {
		page->left = middle;
		upper->right = id;
	}
	if (middle)
		wb_page(cache, middle)->parent = id;
	page->parent = up;
}

static void insert_fixup(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;

	while (is_red(cache, wb_page(cache, id)->parent)) {
		uint32_t parent = wb_page(cache, id)->parent;
		uint32_t grand = wb_page(cache, parent)->parent;
		bool left = wb_page(cache, grand)->left == parent;
		uint32_t uncle = left ? wb_page(cache, grand)->right : wb_page(cache, grand)->left;

		if (is_red(cache, uncle)) {
			set_red(cache, parent, false);
			set_red(cache, uncle, false);
			set_red(cache, grand, true);
			id = grand;
			continue;
		}
		if (id == (left ? wb_page(cache, parent)->right : wb_page(cache, parent)->left)) {
			rotate(file, parent, left);
			parent = id;
		}
		set_red(cache, parent, false);
		set_red(cache, grand, true);
		rotate(file, grand, !left);
		break;
	}
	set_red(cache, file->root, false);
}

void wb_index_insert_locked(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);
	uint32_t parent = 0;
	bool left = false;

	lock_assert_held(&file->lock);
	page->left = page->right = 0;
	/* A sequential writer appends: the hint is then the rightmost page and the place is found without a descent. */
	if (file->hint && !wb_page(cache, file->hint)->right &&
	    wb_page(cache, file->hint)->index + 1 == page->index) {
		parent = file->hint;
	} else if (file->gap_index == page->index) {
		/* Whoever inserts has just looked and not found. */
		parent = file->gap_parent;
		left = parent && page->index < wb_page(cache, parent)->index;
	} else {
		for (uint32_t at = file->root; at;) {
			parent = at;
			assert(wb_page(cache, at)->index != page->index);
			left = page->index < wb_page(cache, at)->index;
			at = left ? wb_page(cache, at)->left : wb_page(cache, at)->right;
		}
	}
	file->gap_index = UINT64_MAX;
	page->parent = parent;
	if (!parent)
		file->root = id;
	else if (left)
		wb_page(cache, parent)->left = id;
	else
		wb_page(cache, parent)->right = id;
	set_red(cache, id, true);
	insert_fixup(file, id);
	file->hint = id;
	atomic_store_explicit(aside_slot(file, page->index), id, memory_order_relaxed);
}

/* @id is short of one black; it may be nil, hence @parent. */
static void remove_fixup(struct wb_file *file, uint32_t id, uint32_t parent)
{
	struct wb_cache *cache = file->cache;

	while (id != file->root && !is_red(cache, id)) {
		bool left = wb_page(cache, parent)->left == id;
		uint32_t sibling = left ? wb_page(cache, parent)->right : wb_page(cache, parent)->left;

		if (is_red(cache, sibling)) {
			set_red(cache, sibling, false);
			set_red(cache, parent, true);
			rotate(file, parent, left);
			sibling = left ? wb_page(cache, parent)->right : wb_page(cache, parent)->left;
		}
		struct wb_page *s = wb_page(cache, sibling);
		uint32_t near = left ? s->left : s->right;
		uint32_t far = left ? s->right : s->left;
		if (!is_red(cache, near) && !is_red(cache, far)) {
			set_red(cache, sibling, true);
			id = parent;
			parent = wb_page(cache, id)->parent;
			continue;
		}
		if (!is_red(cache, far)) {
			set_red(cache, near, false);
			set_red(cache, sibling, true);
			rotate(file, sibling, !left);
			far = sibling;
			sibling = near;
		}
		set_red(cache, sibling, is_red(cache, parent));
		set_red(cache, parent, false);
		set_red(cache, far, false);
		rotate(file, parent, left);
		id = file->root;
	}
	set_red(cache, id, false);
}

void wb_index_remove_locked(struct wb_file *file, uint32_t id)
{
	struct wb_cache *cache = file->cache;
	struct wb_page *page = wb_page(cache, id);
	uint32_t child, parent;
	bool black;

	lock_assert_held(&file->lock);
	file->gap_index = UINT64_MAX;
	if (file->hint == id)
		file->hint = 0;
	if (!page->left || !page->right) {
		child = page->left ? page->left : page->right;
		parent = page->parent;
		black = !is_red(cache, id);
		replace_child(file, id, child);
	} else {
		uint32_t heir = wb_index_next(cache, id);
		struct wb_page *h = wb_page(cache, heir);
		child = h->right;
		black = !is_red(cache, heir);
		if (h->parent == id) {
			parent = heir;
		} else {
			parent = h->parent;
			replace_child(file, heir, child);
			h->right = page->right;
			wb_page(cache, h->right)->parent = heir;
		}
		replace_child(file, id, heir);
		h->left = page->left;
		wb_page(cache, h->left)->parent = heir;
		set_red(cache, heir, is_red(cache, id));
	}
	if (black)
		remove_fixup(file, child, parent);
	page->left = page->right = page->parent = 0;
}
