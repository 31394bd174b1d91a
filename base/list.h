/* SPDX-License-Identifier: MIT */
/*
 * A circular doubly linked list, embedded in what it links.
 *
 * An entry that is on no list points at itself, so list_del() may be called twice and
 * list_is_linked() is a question about the entry alone.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *list)
{
	list->prev = list->next = list;
}

static inline bool list_is_empty(const struct list *list)
{
	return list->next == list;
}

static inline bool list_is_linked(const struct list *entry)
{
	return entry->next != entry;
}

static inline void list_add_tail(struct list *list, struct list *entry)
{
	entry->prev = list->prev;
	entry->next = list;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_add_head(struct list *list, struct list *entry)
{
	list_add_tail(list->next, entry);
}

static inline void list_del(struct list *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	list_init(entry);
}

static inline void list_move_tail(struct list *list, struct list *entry)
{
	list_del(entry);
	list_add_tail(list, entry);
}

/** Moves every entry of @from to the end of @to; @from becomes empty. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#define list_first(list, type, member) list_entry((list)->next, type, member)
#define list_last(list, type, member) list_entry((list)->prev, type, member)

#define list_for_each(it, list, member)                                                            \
	for (it = list_entry((list)->next, __typeof__(*it), member); &it->member != (list);        \
	     it = list_entry(it->member.next, __typeof__(*it), member))

/** As list_for_each, but @it may be unlinked or freed in the body. @tmp: a second pointer. */
#define list_for_each_safe(it, tmp, list, member)                                                  \
	for (it = list_entry((list)->next, __typeof__(*it), member),                               \
	    tmp = list_entry(it->member.next, __typeof__(*it), member);                            \
	     &it->member != (list);                                                                \
	     it = tmp, tmp = list_entry(tmp->member.next, __typeof__(*it), member))

#endif
