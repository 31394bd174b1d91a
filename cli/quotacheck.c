/* SPDX-License-Identifier: MIT */
/* chokefs quotacheck: counts the tree anew and compares; of a live mount or of a backing that is
 * not mounted. */
#include "cli/private.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "fusefs/fusefs.h"

struct args {
	bool repair, json;
	const char *path;
};

/* The same object as the control channel gives. */
static json_object *result_json(const struct fs_check_result *result)
{
	json_object *object = json_object_new_object();
	json_object *drifts = json_object_new_array();

	for (size_t i = 0; i < result->nr_drifts; i++) {
		const struct fs_drift *drift = &result->drifts[i];
		json_object *item = json_object_new_object();
		json_object_object_add(
			item, "kind",
			json_object_new_string(cli_kind_name(drift->kind ? CLI_GROUP : CLI_USER)));
		json_object_object_add(item, "id", json_object_new_int64(drift->id));
		json_object_object_add(item, "recorded_bytes",
				       json_object_new_int64(drift->recorded_bytes));
		json_object_object_add(item, "recorded_inodes",
				       json_object_new_int64(drift->recorded_inodes));
		json_object_object_add(item, "counted_bytes",
				       json_object_new_int64(drift->counted_bytes));
		json_object_object_add(item, "counted_inodes",
				       json_object_new_int64(drift->counted_inodes));
		json_object_array_add(drifts, item);
	}
	json_object_object_add(object, "files", json_object_new_uint64(result->files));
	json_object_object_add(object, "repaired", json_object_new_boolean(result->repaired));
	json_object_object_add(object, "unclean", json_object_new_boolean(result->unclean));
	json_object_object_add(object, "salvaged", json_object_new_boolean(result->salvaged));
	if (result->salvaged)
		json_object_object_add(object, "limits_kept",
				       json_object_new_uint64(result->limits_kept));
	json_object_object_add(object, "drifts", drifts);
	return object;
}

static void print_drift(json_object *drift)
{
	enum cli_kind kind = strcmp(cli_string(drift, "kind"), "group") == 0 ? CLI_GROUP : CLI_USER;
	char name[64];

	printf("%s %s: recorded %" PRId64 " bytes in %" PRId64 " files, counted %" PRId64
	       " bytes in %" PRId64 " files\n",
	       cli_kind_name(kind),
	       cli_format_id(kind, (uint32_t)cli_int(drift, "id"), false, name, sizeof(name)),
	       cli_int(drift, "recorded_bytes"), cli_int(drift, "recorded_inodes"),
	       cli_int(drift, "counted_bytes"), cli_int(drift, "counted_inodes"));
}

static int print_result(const struct args *args, json_object *result)
{
	json_object *drifts = cli_get(result, "drifts");
	size_t count = json_object_array_length(drifts);
	bool repaired = json_object_get_boolean(cli_get(result, "repaired"));

	if (args->json) {
		json_object_object_del(result, "ok");
		cli_print_json(result);
		return count > 0 && !repaired ? 1 : 0;
	}
	if (json_object_get_boolean(cli_get(result, "salvaged")))
		printf("%s: quota database rebuilt, %" PRId64 " limits kept\n", args->path,
		       cli_int(result, "limits_kept"));
	if (json_object_get_boolean(cli_get(result, "unclean")))
		printf("%s: the last mount did not end cleanly: usage is recounted at the next\n",
		       args->path);
	for (size_t i = 0; i < count; i++)
		print_drift(json_object_array_get_idx(drifts, i));
	printf("%s: %" PRId64 " files counted, %zu ids drifted%s\n", args->path,
	       cli_int(result, "files"), count, repaired ? ", repaired" : "");
	return count > 0 && !repaired ? 1 : 0;
}

static int check_mounted(const struct args *args)
{
	int code;
	json_object *request = cli_request("quotacheck");
	json_object_object_add(request, "repair", json_object_new_boolean(args->repair));
	_cleanup_json_ json_object *answer = control_ask(args->path, request, &code);
	return answer ? print_result(args, answer) : code;
}

static int check_unmounted(const struct args *args)
{
	struct fs_check_result result = { 0 };
	if (fs_check_backing(args->path, args->repair, &result) < 0)
		return 1;
	_cleanup_json_ json_object *object = result_json(&result);
	free(result.drifts);
	return print_result(args, object);
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "repair", no_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	_cleanup_(control_mount_fini) struct control_mount mount = { 0 };
	struct args args = { 0 };
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (c == 'r')
			args.repair = true;
		else if (c == 'j')
			args.json = true;
		else
			return cli_bad_option(c, argv);
	}
	int code = cli_expect_args(argc, argv, optind, 1, "[--repair] [--json] MOUNTPOINT|BACKING");
	if (code != 0)
		return code;
	args.path = argv[optind];
	return control_find_mount(args.path, &mount) == 0 ? check_mounted(&args)
							  : check_unmounted(&args);
}

const struct cli_command cli_quotacheck = {
	.name = "quotacheck",
	.synopsis = "quotacheck [--repair] [--json] MOUNTPOINT|BACKING",
	.summary = "counts usage anew and compares it with what is recorded",
	.details = "Exits 1 with a line for each id that drifted. With --repair usage is set to "
		   "what was counted, and a damaged\n"
		   "database of a backing that is not mounted is rebuilt: limits that can be read "
		   "are kept, and the old file is\n"
		   "kept beside it. Writers of a live mount wait meanwhile.\n",
	.run = run,
};
