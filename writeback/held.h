/* SPDX-License-Identifier: MIT */
/* Writes that the backing has answered, held until their due time. */
#ifndef WRITEBACK_HELD_H
#define WRITEBACK_HELD_H

#include "writeback/device.h"

/* Not locked: belongs to whoever embeds it. All zero: empty. Uses the link of what it holds. */
struct wb_held {
	struct list *root;
};

void wb_held_add(struct wb_held *held, struct wb_io *io);

/** The one that is due first, or NULL. */
struct wb_io *wb_held_find_first(const struct wb_held *held);

/** Takes that one out; there must be one. */
struct wb_io *wb_held_pop(struct wb_held *held);

#endif
