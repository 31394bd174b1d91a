/* SPDX-License-Identifier: MIT */
/* What the files of cli/ share. A subcommand is a file; its table entry says what `help` shows. */
#ifndef CLI_PRIVATE_H
#define CLI_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "control/control.h"

struct cli_command {
	const char *name;
	const char *synopsis;              /* without the program's name; one form a line */
	const char *summary;               /* a line of --help */
	const char *details;               /* what `help COMMAND` adds; ends with a newline */
	int (*run)(int argc, char **argv); /* argv[0]: the command's name; the exit code */
};

extern const struct cli_command cli_mount, cli_umount, cli_tune, cli_stats, cli_top, cli_quota,
	cli_repquota, cli_setquota, cli_quotacheck, cli_trial;

/** Mounts as mount(8) asks a helper to: BACKING MOUNTPOINT [-sfnv] [-N NS] [-o OPTIONS] [-t TYPE].
 */
int cli_mount_helper(int argc, char **argv);

/** "chokefs: WHAT: WHY", and 2 to exit with. */
int cli_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Complains of what getopt_long() returned ('?' or ':'; optstring starts with ':', opterr is
 * 0). 2. */
int cli_bad_option(int found, char **argv);

/** The number of arguments must be @count: 0, or 2 with a complaint. */
int cli_expect_args(int argc, char **argv, int first, int count, const char *what);

/** {"cmd":@name}. */
json_object *cli_request(const char *name);

static inline void cli_put(json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(cli_put)

/* ---- fields of an answer; a missing one is 0 ---- */

json_object *cli_get(json_object *object, const char *key);
int64_t cli_int(json_object *object, const char *key);
const char *cli_string(json_object *object, const char *key);
void cli_print_json(json_object *object);

/** The switches, for the help of mount and tune. */
void cli_print_switches(void);

/* ---- stats_text.c ---- */

/** "3.2ms". */
const char *cli_format_ns(int64_t ns, char *buf, size_t len);
void cli_stats_print(json_object *stats, FILE *out);
void cli_stats_prometheus(json_object *stats, FILE *out);

/* ---- names.c: users and groups ---- */

enum cli_kind {
	CLI_USER,
	CLI_GROUP,
};
const char *cli_kind_name(enum cli_kind kind);
/** A name, a number or #number. 0, or 2 with a complaint. */
int cli_parse_id(enum cli_kind kind, const char *text, uint32_t *ret_id);
/** The name, or #number where there is none or @numeric. */
const char *cli_format_id(enum cli_kind kind, uint32_t id, bool numeric, char *buf, size_t len);

/* ---- quota_text.c: as the quota tools print ---- */

/** KiB, rounded up, or with a unit if @human. */
const char *cli_format_blocks(int64_t bytes, bool human, char *buf, size_t len);
const char *cli_format_inodes(int64_t inodes, bool human, char *buf, size_t len);
/** "7days", "01:30": a grace period. */
const char *cli_format_period(int64_t seconds, char *buf, size_t len);
/** "6days", "none" once it is over, "" without a timer. */
const char *cli_format_grace(int64_t expire, int64_t now, char *buf, size_t len);

/** An entry of an answer. */
struct cli_entry {
	uint32_t id;
	int64_t bytes, bytes_soft, bytes_hard, bytes_expire;
	int64_t inodes, inodes_soft, inodes_hard, inodes_expire;
};
struct cli_entry cli_entry_of(json_object *object);
bool cli_over_bytes(const struct cli_entry *entry);
bool cli_over_inodes(const struct cli_entry *entry);

#endif
