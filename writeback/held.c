/* SPDX-License-Identifier: MIT */
/*
 * Writes that the backing has answered, ordered by due time.
 *
 * A pairing heap. Answers come in any order, and after a change of model due times do too, so a
 * sorted list would be walked from end to end just when a slow device has left a long queue behind.
 * The heap adds in O(1), pops in O(log n) amortised, and needs no memory that could be refused:
 * while a write is in here, link.prev is its first child and link.next its next sibling, NULL where
 * there is none.
 */
#include "writeback/held.h"

static uint64_t node_due_ns(const struct list *node)
{
	return list_entry(node, struct wb_io, link)->due_ns;
}

/* Two trees become one; both roots must be without siblings. */
static struct list *meld(struct list *a, struct list *b)
{
	if (node_due_ns(b) < node_due_ns(a)) {
		struct list *earlier = b;
		b = a;
		a = earlier;
	}
	b->next = a->prev;
	a->prev = b;
	return a;
}

void wb_held_add(struct wb_held *held, struct wb_io *io)
{
	io->link = (struct list){NULL, NULL};
	held->root = held->root ? meld(held->root, &io->link) : &io->link;
}

struct wb_io *wb_held_find_first(const struct wb_held *held)
{
	return held->root ? list_entry(held->root, struct wb_io, link) : NULL;
}

/* Siblings are melded in pairs from left to right; the pairs are chained the other way round. */
static struct list *meld_pairs(struct list *node)
{
	struct list *pairs = NULL;
	while (node) {
		struct list *a = node, *b = node->next;
		node = b ? b->next : NULL;
		a->next = NULL;
		if (b) {
			b->next = NULL;
			a = meld(a, b);
		}
		a->next = pairs;
		pairs = a;
	}
	return pairs;
}

struct wb_io *wb_held_pop(struct wb_held *held)
{
	struct list *first = held->root;
	struct list *pairs = meld_pairs(first->prev);
	held->root = NULL;
	while (pairs) {
		struct list *rest = pairs->next;
		pairs->next = NULL;
		held->root = held->root ? meld(held->root, pairs) : pairs;
		pairs = rest;
	}
	list_init(first);
	return list_entry(first, struct wb_io, link);
}
