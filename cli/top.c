/* SPDX-License-Identifier: MIT */
/*
 * chokefs top: what a mount does now, once a second.
 *
 * Every frame is made as text from two samples, so that --once and the live screen cannot differ.
 */
#include "cli/private.h"

#include <curses.h>
#include <getopt.h>
#include <inttypes.h>
#include <locale.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sizes.h"

#define INTERVAL_NS NSEC_PER_SEC
#define BAR_WIDTH 40

/* Two samples and the time between them. */
struct frame {
	json_object *before, *now;
	double seconds;
};

static int64_t gauge(const struct frame *frame, const char *section, const char *key)
{
	return cli_int(cli_get(frame->now, section), key);
}

/* Per second; a reset in between counts as nothing. */
static double rate_of(json_object *before, json_object *now, const char *key, double seconds)
{
	int64_t delta = cli_int(now, key) - cli_int(before, key);
	return delta > 0 && seconds > 0 ? (double)delta / seconds : 0;
}

static double rate(const struct frame *frame, const char *section, const char *key)
{
	return rate_of(cli_get(frame->before, section), cli_get(frame->now, section), key,
		       frame->seconds);
}

static const char *bytes_text(double bytes, char *buf, size_t len)
{
	return format_size_human(bytes > 0 ? (uint64_t)bytes : 0, buf, len);
}

static void print_bar(const char *name, int64_t value, int64_t limit, FILE *out)
{
	char used[32], most[32];
	int filled = limit > 0 ? (int)(value * BAR_WIDTH / limit) : 0;

	filled = filled > BAR_WIDTH ? BAR_WIDTH : filled;
	fprintf(out, "%-10s [", name);
	for (int i = 0; i < BAR_WIDTH; i++)
		fputc(i < filled ? '#' : ' ', out);
	fprintf(out, "] %s of %s\n", bytes_text((double)value * 4096, used, sizeof(used)),
		bytes_text((double)limit * 4096, most, sizeof(most)));
}

static void print_head(const struct frame *frame, FILE *out)
{
	json_object *settings = cli_get(frame->now, "settings");
	char uptime[32];

	fprintf(out, "%s over %s, up %s\n", cli_string(frame->now, "mountpoint"),
		cli_string(frame->now, "backing"),
		cli_format_ns(cli_int(frame->now, "uptime_ns"), uptime, sizeof(uptime)));
	fprintf(out, "rollback=%s undo=%s congestion=%s completion=%s device=%s\n\n",
		cli_string(settings, "rollback"), cli_string(settings, "undo"),
		cli_string(settings, "congestion"), cli_string(settings, "completion"),
		cli_string(settings, "device"));
}

static void print_cache(const struct frame *frame, FILE *out)
{
	int64_t limit = gauge(frame, "cache", "limit_pages");
	bool congested = json_object_get_boolean(cli_get(cli_get(frame->now, "gate"), "congested"));

	print_bar("resident", gauge(frame, "cache", "pages"), limit, out);
	print_bar("dirty", gauge(frame, "cache", "dirty"), limit, out);
	print_bar("writeback", gauge(frame, "cache", "writeback"), limit, out);
	print_bar("gate", gauge(frame, "gate", "outstanding"), gauge(frame, "gate", "on"), out);
	fprintf(out,
		"\ngate %s, congested %" PRId64 " times, %" PRId64 " passes skipped, %" PRId64
		" waits\n",
		congested ? "CLOSED" : "open", gauge(frame, "gate", "times_congested"),
		gauge(frame, "gate", "passes_skipped"), gauge(frame, "gate", "waits"));
}

static void print_rates(const struct frame *frame, FILE *out)
{
	char bytes[32];

	fprintf(out,
		"device %s/s in %.0f writes/s, busy %.0f %%, idle with work %.0f %%, %" PRId64
		" errors\n",
		bytes_text(rate(frame, "device", "bytes"), bytes, sizeof(bytes)),
		rate(frame, "device", "writes"), rate(frame, "device", "busy_ns") / 1e7,
		rate(frame, "device", "idle_ns") / 1e7, gauge(frame, "device", "errors"));
	fprintf(out, "quota  %.0f refused/s; rollback %.0f/s, %.0f pages visited/s, %.0f freed/s\n",
		rate(frame, "quota", "refused_blocks") + rate(frame, "quota", "refused_inodes"),
		rate(frame, "rollback", "count"), rate(frame, "rollback", "pages_visited"),
		rate(frame, "rollback", "pages_freed"));
	fprintf(out, "throttle %.0f pauses/s, writers asleep %.0f %%\n\n",
		rate(frame, "throttle", "pauses"), rate(frame, "throttle", "pause_ns") / 1e7);
}

static void print_ops(const struct frame *frame, FILE *out)
{
	char bytes[32], p50[32], p99[32];

	fprintf(out, "%-16s %10s %10s %8s %8s %8s\n", "operation", "per s", "bytes/s", "errors",
		"p50", "p99");
	json_object *ops = cli_get(frame->now, "ops");
	json_object *ops_before = cli_get(frame->before, "ops");
	json_object_object_foreach(ops, name, op)
	{
		json_object *before = cli_get(ops_before, name);
		if (cli_int(op, "count") == 0)
			continue;
		fprintf(out, "%-16s %10.0f %10s %8" PRId64 " %8s %8s\n", name,
			rate_of(before, op, "count", frame->seconds),
			bytes_text(rate_of(before, op, "bytes", frame->seconds), bytes,
				   sizeof(bytes)),
			cli_int(op, "errors"),
			cli_format_ns(cli_int(op, "p50_ns"), p50, sizeof(p50)),
			cli_format_ns(cli_int(op, "p99_ns"), p99, sizeof(p99)));
	}
}

static void print_frame(const struct frame *frame, FILE *out)
{
	print_head(frame, out);
	print_cache(frame, out);
	print_rates(frame, out);
	print_ops(frame, out);
}

/* A sample; NULL and the exit code when there is none. */
static json_object *sample(const char *mountpoint, int *ret_exit)
{
	_cleanup_json_ json_object *answer =
		control_ask(mountpoint, cli_request("stats"), ret_exit);
	return answer ? json_object_get(cli_get(answer, "stats")) : NULL;
}

static void draw(const struct frame *frame)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int row = 0;

	FILE *out = open_memstream(&text, &len);
	if (!out)
		return;
	print_frame(frame, out);
	fclose(out);
	erase();
	for (char *rest = text, *line; row < LINES - 1 && (line = strsep(&rest, "\n")); row++)
		mvaddnstr(row, 0, line, COLS);
	mvaddnstr(LINES - 1, 0, "q: quit", COLS);
	refresh();
}

/* Takes the second sample after an interval and shows both. 0, or the exit code plus one. */
static int step(const char *mountpoint, json_object **before,
		void (*show)(const struct frame *frame))
{
	int code;
	json_object *now = sample(mountpoint, &code);
	if (!now)
		return code + 1;
	struct frame frame = { .before = *before, .now = now };
	frame.seconds = (double)(cli_int(now, "uptime_ns") - cli_int(*before, "uptime_ns")) / 1e9;
	show(&frame);
	json_object_put(*before);
	*before = now;
	return 0;
}

static void print_to_stdout(const struct frame *frame)
{
	print_frame(frame, stdout);
}

static int run_once(const char *mountpoint, json_object **before)
{
	struct timespec pause = timespec_of_ns(INTERVAL_NS);
	nanosleep(&pause, NULL);
	int r = step(mountpoint, before, print_to_stdout);
	return r ? r - 1 : 0;
}

static int run_live(const char *mountpoint, json_object **before)
{
	int r = 0;

	setlocale(LC_ALL, "");
	SCREEN *screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return cli_wrong("top: the terminal is of an unknown kind: use --once");
	cbreak();
	noecho();
	curs_set(0);
	timeout((int)(INTERVAL_NS / NSEC_PER_MSEC));
	while (r == 0) {
		int key = getch();
		if (key == 'q' || key == 27)
			break;
		if (key != ERR)
			continue;
		r = step(mountpoint, before, draw);
	}
	endwin();
	delscreen(screen);
	if (r == 0)
		return 0;
	/* What was said went down with the screen: let it be said again. */
	_cleanup_json_ json_object *again = sample(mountpoint, &r);
	return again ? 1 : r;
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = { { "once", no_argument, NULL, '1' }, { 0 } };
	_cleanup_json_ json_object *before = NULL;
	bool once = false;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (c != '1')
			return cli_bad_option(c, argv);
		once = true;
	}
	int code = cli_expect_args(argc, argv, optind, 1, "[--once] MOUNTPOINT");
	if (code != 0)
		return code;
	if (!once && !isatty(STDOUT_FILENO))
		return cli_wrong("top: not on a terminal: use --once");
	before = sample(argv[optind], &code);
	if (!before)
		return code;
	return once ? run_once(argv[optind], &before) : run_live(argv[optind], &before);
}

const struct cli_command cli_top = {
	.name = "top",
	.synopsis = "top [--once] MOUNTPOINT",
	.summary = "shows what a mount does now, every second",
	.details = "  --once  prints one frame, the rates taken over a second, and returns\n",
	.run = run,
};
