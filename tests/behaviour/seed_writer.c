/* SPDX-License-Identifier: MIT */
/*
 * A program that never looks at what write(2) returns: our own writing of the kind that brought a server down.
 *
 *   seed_writer FILE SECONDS
 *
 * Writes half a megabyte after the other to FILE until SECONDS are over (the one mercy). After every thousand calls,
 * and at the end, a line says how many calls there were, how many failed, and how many a second were made.
 * A change of errno is said once on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITE_BYTES (65536 * sizeof(char *)) /* 512 KiB where a pointer has 8 bytes */
#define CALLS_PER_LINE 1000

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static char zeroes[WRITE_BYTES];
	int said = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: seed_writer FILE SECONDS\n");
		return 2;
	}
	int fd = open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	double end = now() + atof(argv[2]);
	for (double start = now(), stop = start; stop < end; start = stop) {
		int calls = 0, failed = 0;
		while (calls < CALLS_PER_LINE && (calls % 10 != 0 || now() < end)) {
			int error = write(fd, zeroes, sizeof(zeroes)) < 0 ? errno : 0;
			calls++;
			failed += error != 0;
			if (error != said)
				fprintf(stderr, "write: %s\n", strerror(error));
			said = error;
		}
		stop = now();
		if (calls > 0)
			printf("%d calls, %d failed, %.1f a second\n", calls, failed, calls / (stop - start));
	}
	return 0;
}
