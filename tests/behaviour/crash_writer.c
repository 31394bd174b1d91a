/* SPDX-License-Identifier: MIT */
/*
 * Writes, syncs, and keeps a log of what was synced, so that a crash can be judged.
 *
 *   crash_writer write FILE LOG GENERATION    until the file system fails it
 *   crash_writer verify FILE LOG              after the crash
 *
 * Each 8-byte word of FILE holds its own index and the generation of the write that put it there. LOG is outside of
 * the file system under test; it gets the writes of an fsync once that has succeeded. After the crash each word must be
 * of the generation that was last synced there or a later one, and the file must be at least as long as when it was
 * last synced. A later start is given a GENERATION above all earlier ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NR_WORDS (1u << 20) /* 8 MiB */
#define WRITE_MAX_WORDS (1u << 14)
#define SYNC_EVERY 6

static uint64_t word_of(uint32_t index, uint32_t generation)
{
	return (uint64_t)generation << 32 | index;
}

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((*state >> 33) % limit);
}

struct extent {
	uint32_t first, count, generation;
};

/* Writes one extent. False when the file system has died under us. */
static bool write_extent(int fd, const struct extent *extent)
{
	static uint64_t words[WRITE_MAX_WORDS];
	size_t len = extent->count * sizeof(uint64_t), done = 0;
	for (uint32_t i = 0; i < extent->count; i++)
		words[i] = word_of(extent->first + i, extent->generation);
	while (done < len) {
		ssize_t n = pwrite(fd, (char *)words + done, len - done,
				   (off_t)(extent->first * sizeof(uint64_t) + done));
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Writes SYNC_EVERY extents and syncs them. False when the file system has died under us. */
static bool write_batch(int fd, struct extent *extents, uint64_t *random, uint32_t *generation, uint32_t *end)
{
	for (int i = 0; i < SYNC_EVERY; i++) {
		/* Appends, whose ends are hardly ever at a page, and overwrites. */
		bool append = *end < NR_WORDS / 2 || (*end < NR_WORDS && random_below(random, 2));
		uint32_t first = append ? *end : random_below(random, *end);
		uint32_t count = 1 + random_below(random, WRITE_MAX_WORDS >> random_below(random, 10));
		count = count > NR_WORDS - first ? NR_WORDS - first : count;
		extents[i] = (struct extent){ first, count, ++*generation };
		if (!write_extent(fd, &extents[i]))
			return false;
		*end = first + count > *end ? first + count : *end;
	}
	return (*generation / SYNC_EVERY % 2 ? fdatasync(fd) : fsync(fd)) == 0;
}

static int run_writes(int fd, FILE *log, uint32_t generation)
{
	uint64_t random = generation * 0x9e3779b97f4a7c15ull;
	struct extent extents[SYNC_EVERY];
	uint32_t syncs = 0;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 1;
	uint32_t end = (uint32_t)((uint64_t)st.st_size / sizeof(uint64_t));
	for (; write_batch(fd, extents, &random, &generation, &end); syncs++) {
		for (int i = 0; i < SYNC_EVERY; i++)
			fprintf(log, "%" PRIu32 " %" PRIu32 " %" PRIu32 "\n", extents[i].first,
				extents[i].count, extents[i].generation);
		if (fflush(log) != 0)
			return 1;
	}
	/* A crash of the daemon is what we are here for; a full file system is not. */
	int error = errno;
	printf("%" PRIu32 " syncs, then: %s\n", syncs, strerror(error));
	return error == EDQUOT || error == ENOSPC;
}

/* Reads the log into generations synced a word; returns how many words long the file must be. */
static uint32_t read_log(FILE *log, uint32_t *synced, uint32_t *ret_extents)
{
	struct extent extent;
	uint32_t end = 0;

	*ret_extents = 0;
	while (fscanf(log, "%" SCNu32 " %" SCNu32 " %" SCNu32, &extent.first, &extent.count,
		      &extent.generation) == 3) {
		for (uint32_t i = extent.first; i < extent.first + extent.count; i++)
			synced[i] = extent.generation;
		if (extent.first + extent.count > end)
			end = extent.first + extent.count;
		++*ret_extents;
	}
	return end;
}

static int verify(const char *name, FILE *file, FILE *log)
{
	uint32_t *synced = calloc(NR_WORDS, sizeof(*synced)), extents, wrong = 0;
	uint64_t word;

	if (!synced)
		abort();
	uint32_t end = read_log(log, synced, &extents);
	for (uint32_t i = 0; i < end; i++) {
		if (fread(&word, sizeof(word), 1, file) != 1) {
			printf("%s: ends at byte %zu, %zu were synced\n", name, i * sizeof(word), end * sizeof(word));
			return 1;
		}
		if (synced[i] == 0 || ((uint32_t)word == i && word >> 32 >= synced[i]))
			continue;
		if (wrong++ < 5)
			printf("%s: byte %zu: index %" PRIu32 " generation %" PRIu64 ", synced was %" PRIu32 "\n",
			       name, i * sizeof(word), (uint32_t)word, word >> 32, synced[i]);
	}
	printf("%s: %" PRIu32 " synced writes, %zu bytes checked, %" PRIu32 " words wrong\n", name, extents,
	       end * sizeof(word), wrong);
	free(synced);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "write") == 0) {
		int fd = open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		FILE *log = fopen(argv[3], "ae");
		if (fd < 0 || !log) {
			perror(argv[2]);
			return 1;
		}
		return run_writes(fd, log, (uint32_t)strtoul(argv[4], NULL, 10));
	}
	if (argc == 4 && strcmp(argv[1], "verify") == 0) {
		FILE *file = fopen(argv[2], "re"), *log = fopen(argv[3], "re");
		if (!file || !log) {
			perror(argv[2]);
			return 1;
		}
		return verify(argv[2], file, log);
	}
	fprintf(stderr, "usage: crash_writer write FILE LOG GENERATION | verify FILE LOG\n");
	return 2;
}
