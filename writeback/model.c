/* SPDX-License-Identifier: MIT */
/*
 * The virtual clock of a modelled device.
 *
 * A device is a bus and a number of slots. A write takes a slot when one is free, then the bus, for
 * a seek (if it does not start where the last one ended) and for bytes / rate; after that the bus is
 * the next write's, while this one lasts latency longer and then gives its slot back:
 *
 *	write 1  |seek|transfer|-------latency-------|
 *	write 2                |transfer|-------latency-------|
 *	write 3 (depth 2)                            |transfer|-------latency-------|
 *
 * Times follow from arrivals and from each other only, never from the moment at which somebody
 * looked at a clock, so lateness cannot add up. What a division leaves over is carried to the next
 * transfer: the busy time of a run is bytes / rate to the nanosecond.
 *
 * Knows nothing of threads, of real writes and of batches.
 */
#include "writeback/model.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sizes.h"

int wb_model_init(struct wb_model *model)
{
	*model = (struct wb_model){.next_fd = -1};
	model->due_ns = calloc(WB_MODEL_MAX_DEPTH, sizeof(*model->due_ns));
	return model->due_ns ? 0 : -ENOMEM;
}

void wb_model_fini(struct wb_model *model)
{
	free(model->due_ns);
	model->due_ns = NULL;
}

void wb_model_set(struct wb_model *model, const struct wb_device_model *param)
{
	*model = (struct wb_model){.param = *param, .next_fd = -1, .due_ns = model->due_ns};
	if (model->param.depth > WB_MODEL_MAX_DEPTH)
		model->param.depth = WB_MODEL_MAX_DEPTH;
}

bool wb_model_is_none(const struct wb_model *model)
{
	return !model->param.rate && !model->param.latency_ns && !model->param.seek_ns;
}

bool wb_model_is_serial(const struct wb_model *model)
{
	return model->param.rate || model->param.seek_ns;
}

static uint64_t add_ns(uint64_t a, uint64_t b)
{
	return a >= WB_MODEL_NEVER || b >= WB_MODEL_NEVER - a ? WB_MODEL_NEVER : a + b;
}

/* The part of a nanosecond stays in bus_part. */
static uint64_t model_transfer_ns(struct wb_model *model, size_t len)
{
	if (model->param.rate == 0)
		return 0;
	unsigned __int128 parts = (unsigned __int128)len * NSEC_PER_SEC + model->bus_part;
	unsigned __int128 ns = parts / model->param.rate;
	model->bus_part = (uint64_t)(parts % model->param.rate);
	return ns >= WB_MODEL_NEVER ? WB_MODEL_NEVER : (uint64_t)ns;
}

static bool model_follows(const struct wb_model *model, int fd, uint64_t off)
{
	return fd == model->next_fd && off == model->next_off;
}

/* When a slot is free: all of them are taken until the write @depth before this one is done. */
static uint64_t model_slot_ns(const struct wb_model *model)
{
	uint64_t depth = model->param.depth;
	if (depth == 0 || model->nr_scheduled < depth)
		return 0;
	return model->due_ns[(model->nr_scheduled - depth) % WB_MODEL_MAX_DEPTH];
}

void wb_model_schedule(struct wb_model *model, uint64_t start_ns, int fd, uint64_t off, size_t len,
		       uint64_t *ret_due_ns, uint64_t *ret_cost_ns)
{
	uint64_t seek_ns = model_follows(model, fd, off) ? 0 : model->param.seek_ns;
	uint64_t cost_ns = add_ns(seek_ns, model_transfer_ns(model, len));
	uint64_t start = max_u64(start_ns, model_slot_ns(model));
	if (wb_model_is_serial(model)) {
		start = max_u64(start, model->bus_free_ns);
		model->bus_free_ns = add_ns(start, cost_ns);
	}
	uint64_t due_ns = add_ns(add_ns(start, cost_ns), model->param.latency_ns);

	model->next_fd = fd;
	model->next_off = off + len;
	model->due_ns[model->nr_scheduled % WB_MODEL_MAX_DEPTH] = due_ns;
	model->nr_scheduled++;
	*ret_due_ns = due_ns;
	*ret_cost_ns = cost_ns;
}
