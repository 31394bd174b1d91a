/* SPDX-License-Identifier: MIT */
/* The virtual clock of a modelled device: when would a write that arrives now be done? */
#ifndef WRITEBACK_MODEL_H
#define WRITEBACK_MODEL_H

#include "writeback/writeback.h"

/* The deepest queue that is modelled; a greater depth counts as this one. */
#define WB_MODEL_MAX_DEPTH 65536u

/* A time that never comes. Sums stop here instead of wrapping. */
#define WB_MODEL_NEVER ((uint64_t)INT64_MAX)

/* Not locked: belongs to whoever embeds it. */
struct wb_model {
	struct wb_device_model param;
	uint64_t bus_free_ns; /* when the last transfer ends */
	uint64_t bus_part;    /* what that end leaves out, in 1/rate of a ns; below rate */
	int next_fd;          /* a write that starts here needs no seek */
	uint64_t next_off;
	uint64_t nr_scheduled; /* since the parameters were set */
	uint64_t *due_ns;      /* of the last WB_MODEL_MAX_DEPTH writes */
};

/** A model of nothing. 0 or -ENOMEM. */
int wb_model_init(struct wb_model *model);
void wb_model_fini(struct wb_model *model);

/** Another device in place of this one: its bus is free, its head is nowhere. What was scheduled
 * keeps its times. */
void wb_model_set(struct wb_model *model, const struct wb_device_model *param);

/** Whether every write is due the moment it arrives. */
bool wb_model_is_none(const struct wb_model *model);

/** Whether writes take turns at something, so that busy time is the sum of their turns. */
bool wb_model_is_serial(const struct wb_model *model);

/** Puts a write behind those scheduled before. @start_ns: when it arrives. Gives the time at which
 * it is done and the time for which it has the device to itself (seek and transfer). */
void wb_model_schedule(struct wb_model *model, uint64_t start_ns, int fd, uint64_t off, size_t len,
		       uint64_t *ret_due_ns, uint64_t *ret_cost_ns);

#endif
