/* SPDX-License-Identifier: MIT */
/*
 * One writer that does everything to its files and knows every byte that must be in them.
 *
 *   mixed_writer DIR NAME SECONDS SEED MODELS
 *
 * It appends, overwrites, writes at random, truncates, preallocates, punches, removes, syncs and reads its files
 * DIR/NAME.N, against whatever quota its uid has, and keeps an image of each in memory. At the end every byte is read
 * back, and the images are left as MODELS/NAME.N, to be compared with the backing once the mount is gone.
 *
 * What a refused operation may leave behind:
 * - write, EDQUOT: the size is the old one. Below it, each byte of the range is the old or the new one, since a write
 *   that is undone takes back the size and not what it had overwritten already.
 * - write, short: what was counted is new; the rest as after EDQUOT. (The kernel may split a write(2): a first page that
 *   is not in its cache is a request of its own, and the next request is refused.)
 * - anything else, EDQUOT: nothing has changed.
 * Any other error, a wrong size or a wrong byte ends the writer with status 1 and one line that says where. An
 * operation that takes longer than HANG_SECONDS ends it by SIGALRM.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NR_FILES 2
#define FILE_MAX ((size_t)8 << 20)
#define WRITE_MAX ((size_t)512 << 10)
#define HANG_SECONDS 60

struct model {
	char path[512];
	int fd;
	size_t size;
	uint8_t *data; /* FILE_MAX; zero beyond size */
};

struct writer {
	uint64_t random;
	struct model files[NR_FILES];
	uint8_t *buf;  /* WRITE_MAX: what is written */
	uint8_t *seen; /* WRITE_MAX: what is read */
	uint64_t ops, refused, cut_short, verified_bytes;
};

static void __attribute__((noreturn, format(printf, 2, 3)))
give_up(const struct model *model, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "mixed_writer: %s: ", model->path);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static uint64_t random_next(struct writer *writer)
{
	writer->random ^= writer->random << 13;
	writer->random ^= writer->random >> 7;
	writer->random ^= writer->random << 17;
	return writer->random;
}

static size_t random_below(struct writer *writer, size_t limit)
{
	return limit == 0 ? 0 : (size_t)(random_next(writer) % limit);
}

/* Lengths of all magnitudes, every other one a whole number of pages. */
static size_t random_length(struct writer *writer)
{
	size_t len = 1 + random_below(writer, WRITE_MAX >> random_below(writer, 12));
	if (random_next(writer) & 1)
		len = (len + 4095) & ~(size_t)4095;
	return len;
}

static size_t random_offset(struct writer *writer, size_t limit)
{
	size_t off = random_below(writer, limit + 1);
	return random_next(writer) & 1 ? off & ~(size_t)4095 : off;
}

static void buf_fill(struct writer *writer, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
		uint64_t word = random_next(writer);
		memcpy(writer->buf + i, &word, sizeof(word));
	}
}

static void model_open(struct model *model)
{
	model->fd = open(model->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (model->fd < 0 && errno != EDQUOT)
		give_up(model, "open: %s", strerror(errno));
}

static void check_size(const struct model *model, const char *after)
{
	struct stat st;
	if (fstat(model->fd, &st) < 0)
		give_up(model, "fstat: %s", strerror(errno));
	if ((size_t)st.st_size != model->size)
		give_up(model, "after %s: size %lld, must be %zu", after, (long long)st.st_size, model->size);
}

/* Reads [off, off+len), which lies below the size, into writer->seen. */
static void read_exactly(struct writer *writer, const struct model *model, size_t off, size_t len)
{
	size_t got = 0;
	while (got < len) {
		ssize_t n = pread(model->fd, writer->seen + got, len - got, (off_t)(off + got));
		if (n < 0)
			give_up(model, "read of %zu at %zu: %s", len, off, strerror(errno));
		if (n == 0)
			give_up(model, "read of %zu at %zu ends after %zu, size must be %zu", len, off, got,
				model->size);
		got += (size_t)n;
	}
	writer->verified_bytes += len;
}

static void check_bytes(struct writer *writer, const struct model *model, size_t off, size_t len,
			const char *after)
{
	while (len > 0) {
		size_t part = len < WRITE_MAX ? len : WRITE_MAX;
		read_exactly(writer, model, off, part);
		for (size_t i = 0; i < part; i++) {
			if (writer->seen[i] != model->data[off + i])
				give_up(model, "after %s: byte %zu is %02x, must be %02x (size %zu)", after,
					off + i, writer->seen[i], model->data[off + i], model->size);
		}
		off += part;
		len -= part;
	}
}

/* @refused was not written at @off. Below the size that leaves old or new bytes: takes over which. */
static void adopt_refused(struct writer *writer, struct model *model, size_t off, const uint8_t *refused,
			  size_t len)
{
	check_size(model, "a refused write");
	if (off >= model->size)
		return;
	if (len > model->size - off)
		len = model->size - off;
	read_exactly(writer, model, off, len);
	for (size_t i = 0; i < len; i++) {
		uint8_t seen = writer->seen[i];
		if (seen != model->data[off + i] && seen != refused[i])
			give_up(model, "after a refused write: byte %zu is %02x, neither old %02x nor new %02x",
				off + i, seen, model->data[off + i], refused[i]);
		model->data[off + i] = seen;
	}
}

static void do_write(struct writer *writer, struct model *model, size_t off)
{
	size_t len = random_length(writer);
	if (off >= FILE_MAX)
		return;
	if (len > FILE_MAX - off)
		len = FILE_MAX - off;
	buf_fill(writer, len);
	ssize_t n = pwrite(model->fd, writer->buf, len, (off_t)off);
	if (n < 0 && errno != EDQUOT)
		give_up(model, "write of %zu at %zu: %s", len, off, strerror(errno));
	if (n < 0) {
		writer->refused++;
		adopt_refused(writer, model, off, writer->buf, len);
		return;
	}
	if (n == 0)
		give_up(model, "write of %zu at %zu: 0", len, off);
	memcpy(model->data + off, writer->buf, (size_t)n);
	if (off + (size_t)n > model->size)
		model->size = off + (size_t)n;
	if ((size_t)n == len)
		return;
	writer->cut_short++;
	adopt_refused(writer, model, off + (size_t)n, writer->buf + n, len - (size_t)n);
	check_bytes(writer, model, off, (size_t)n, "a short write");
}

static void do_truncate(struct writer *writer, struct model *model)
{
	/* Mostly down, to make room; sometimes up, to make holes. */
	bool up = random_below(writer, 4) == 0;
	size_t size = random_offset(writer, up ? FILE_MAX : model->size);
	if (ftruncate(model->fd, (off_t)size) < 0) {
		if (errno != EDQUOT)
			give_up(model, "truncate to %zu: %s", size, strerror(errno));
		writer->refused++;
	} else {
		if (size < model->size)
			memset(model->data + size, 0, model->size - size);
		model->size = size;
	}
	check_size(model, "truncate");
}

static void do_allocate(struct writer *writer, struct model *model)
{
	size_t off = random_offset(writer, model->size);
	size_t len = random_length(writer);
	if (off + len > FILE_MAX)
		return;
	if (fallocate(model->fd, 0, (off_t)off, (off_t)len) == 0) {
		if (off + len > model->size)
			model->size = off + len;
	} else if (errno == EDQUOT) {
		writer->refused++;
	} else if (errno != EOPNOTSUPP) {
		give_up(model, "fallocate of %zu at %zu: %s", len, off, strerror(errno));
	}
	check_size(model, "fallocate");
}

static void do_punch(struct writer *writer, struct model *model)
{
	size_t off = random_offset(writer, model->size);
	size_t len = random_length(writer);
	if (fallocate(model->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len) < 0) {
		if (errno == EOPNOTSUPP)
			return;
		if (errno != EDQUOT)
			give_up(model, "punch of %zu at %zu: %s", len, off, strerror(errno));
		writer->refused++;
		return;
	}
	if (off < model->size)
		memset(model->data + off, 0, len < model->size - off ? len : model->size - off);
}

static void do_remove(struct writer *writer, struct model *model)
{
	if (unlink(model->path) < 0)
		give_up(model, "unlink: %s", strerror(errno));
	/* Now and then it is used on without a name. */
	if (random_next(writer) & 1)
		check_bytes(writer, model, 0, model->size, "unlink");
	if (close(model->fd) < 0)
		give_up(model, "close: %s", strerror(errno));
	memset(model->data, 0, model->size);
	model->size = 0;
	model_open(model);
}

static void do_sync(struct model *model, bool data_only)
{
	if ((data_only ? fdatasync(model->fd) : fsync(model->fd)) < 0)
		give_up(model, "fsync: %s", strerror(errno));
}

static void do_reopen(struct model *model)
{
	if (close(model->fd) < 0)
		give_up(model, "close: %s", strerror(errno));
	model_open(model);
	if (model->fd >= 0)
		check_size(model, "reopen");
}

static void do_read(struct writer *writer, struct model *model)
{
	size_t off = random_offset(writer, model->size);
	size_t len = random_length(writer);
	if (off < model->size)
		check_bytes(writer, model, off, len < model->size - off ? len : model->size - off, "a while");
}

static void do_something(struct writer *writer)
{
	struct model *model = &writer->files[random_below(writer, NR_FILES)];
	unsigned dice = (unsigned)random_below(writer, 100);

	alarm(HANG_SECONDS);
	writer->ops++;
	if (model->fd < 0)
		model_open(model);
	else if (dice < 35)
		do_write(writer, model, model->size);
	else if (dice < 50)
		do_write(writer, model, random_offset(writer, model->size));
	else if (dice < 65)
		do_write(writer, model, random_offset(writer, FILE_MAX - 1));
	else if (dice < 80)
		do_read(writer, model);
	else if (dice < 86)
		do_truncate(writer, model);
	else if (dice < 89)
		do_allocate(writer, model);
	else if (dice < 92)
		do_punch(writer, model);
	else if (dice < 94)
		do_remove(writer, model);
	else if (dice < 97)
		do_sync(model, dice & 1);
	else
		do_reopen(model);
}

/* Leaves the image of a file in directory @models. */
static void model_save(const struct model *model, const char *models)
{
	char path[1024];
	const char *name = strrchr(model->path, '/') + 1;
	snprintf(path, sizeof(path), "%s/%s", models, name);
	FILE *file = fopen(path, "we");
	if (!file || fwrite(model->data, 1, model->size, file) != model->size || fclose(file) != 0)
		give_up(model, "%s: %s", path, strerror(errno));
}

static void *allocate(size_t size)
{
	void *memory = calloc(1, size);
	if (!memory)
		abort();
	return memory;
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: mixed_writer DIR NAME SECONDS SEED MODELS\n");
		return 2;
	}
	struct writer writer = { .random = strtoull(argv[4], NULL, 10) * 0x9e3779b97f4a7c15ull | 1 };
	time_t end = time(NULL) + strtol(argv[3], NULL, 10);

	writer.buf = allocate(WRITE_MAX + sizeof(uint64_t));
	writer.seen = allocate(WRITE_MAX);
	for (int i = 0; i < NR_FILES; i++) {
		struct model *model = &writer.files[i];
		snprintf(model->path, sizeof(model->path), "%s/%s.%d", argv[1], argv[2], i);
		model->data = allocate(FILE_MAX);
		model_open(model);
	}
	while (time(NULL) < end)
		do_something(&writer);
	for (int i = 0; i < NR_FILES; i++) {
		struct model *model = &writer.files[i];
		alarm(HANG_SECONDS);
		if (model->fd < 0)
			continue;
		check_size(model, "everything");
		check_bytes(&writer, model, 0, model->size, "everything");
		do_sync(model, false);
		model_save(model, argv[5]);
	}
	printf("%s: %llu operations, %llu refused, %llu short, %llu MiB verified\n", argv[2],
	       (unsigned long long)writer.ops, (unsigned long long)writer.refused,
	       (unsigned long long)writer.cut_short, (unsigned long long)writer.verified_bytes >> 20);
	return 0;
}
