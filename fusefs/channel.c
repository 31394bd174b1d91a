/* SPDX-License-Identifier: MIT */
/*
 * What libfuse 3.14 does not know yet of the protocol, spoken between it and the kernel.
 *
 * libfuse 3.14 speaks protocol 7.31. Two later things decide how fast a write is, and both are plain bits in messages whose
 * layout has not changed, so requests and replies are looked at on their way:
 *
 *	FUSE_HANDLE_KILLPRIV_V2 (7.33)	The kernel keeps "this file has no security.capability" instead of asking for
 *		that attribute before every single write(2), which doubled the requests of a writer. In return it tells
 *		us, request by request, when the set-id bits must go: see fs_channel_kills_privs().
 *
 * A libfuse that negotiates these itself finds them offered and answered already; nothing is lost.
 * What is deliberately not done here: changing any reply but the one to INIT.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

/* From protocol 7.36 on; Debian 12's headers end before. */
#define CHANNEL_INIT_EXT (1u << 30)

/*
 * What the request that this thread is serving asks for beyond what libfuse hands on. libfuse serves a request on the
 * thread that read it, before that thread reads the next.
 */
static __thread bool channel_kills_privs;

bool fs_channel_kills_privs(void)
{
	return channel_kills_privs;
}

static bool kills_privs(const struct fuse_in_header *in, const void *arg, size_t len)
{
	const struct fuse_write_in *write = arg;
	const struct fuse_setattr_in *setattr = arg;
	const struct fuse_open_in *open = arg;
	const struct fuse_create_in *create = arg;

	switch (in->opcode) {
	case FUSE_WRITE:
		return len >= sizeof(*write) && write->write_flags & FUSE_WRITE_KILL_SUIDGID;
	case FUSE_SETATTR:
		return len >= sizeof(*setattr) && setattr->valid & FATTR_KILL_SUIDGID;
	case FUSE_OPEN:
		return len >= sizeof(*open) && open->open_flags & FUSE_OPEN_KILL_SUIDGID;
	case FUSE_CREATE:
		return len >= sizeof(*create) && create->open_flags & FUSE_OPEN_KILL_SUIDGID;
	default:
		return false;
	}
}

static ssize_t channel_read(int fd, void *buf, size_t len, void *userdata)
{
	struct fs *fs = userdata;
	const struct fuse_in_header *in = buf;
	ssize_t n = read(fd, buf, len);

	if (n < (ssize_t)sizeof(*in))
		return n;
	channel_kills_privs = kills_privs(in, in + 1, (size_t)n - sizeof(*in));
	if (in->opcode == FUSE_INIT && (size_t)n >= sizeof(*in) + sizeof(struct fuse_init_in)) {
		fs->channel.init_unique = in->unique;
		fs->channel.offered = ((const struct fuse_init_in *)(const void *)(in + 1))->flags;
	}
	return n;
}

/* Adds to libfuse's answer what we want and the kernel has offered. */
static void extend_init(struct fs *fs, struct iovec *iov, int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;

	if (header->error != 0 || count < 2 || iov[1].iov_len < offsetof(struct fuse_init_out, max_background))
		return;
	struct fuse_init_out *init = iov[1].iov_base;
	init->flags |= fs->channel.offered & FUSE_HANDLE_KILLPRIV_V2;
	fs->channel.killpriv_v2 = init->flags & FUSE_HANDLE_KILLPRIV_V2;
}

static ssize_t channel_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct fs *fs = userdata;
	const struct fuse_out_header *header = iov[0].iov_base;

	if (fs->channel.init_unique && header->unique == fs->channel.init_unique) {
		extend_init(fs, iov, count);
		fs->channel.init_unique = 0;
	}
	return writev(fd, iov, count);
}

int fs_channel_attach(struct fs *fs)
{
	static const struct fuse_custom_io io = { .read = channel_read, .writev = channel_writev };

	return fuse_session_custom_io(fs->session, &io, fuse_session_fd(fs->session));
}
