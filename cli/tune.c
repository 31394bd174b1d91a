/* SPDX-License-Identifier: MIT */
/* chokefs tune: shows and changes the switches of a live mount; several are changed together or not
 * at all. */
#include "cli/private.h"

#include <getopt.h>
#include <string.h>

/* The KEY=VALUEs of the arguments as a request; NULL with *@ret_exit = 0 when there are none. */
static json_object *changes_of(int argc, char **argv, int *ret_exit)
{
	_cleanup_json_ json_object *set = json_object_new_object();

	*ret_exit = 0;
	for (int i = 0; i < argc; i++) {
		const char *equals = strchr(argv[i], '=');
		if (!equals)
			continue;
		_cleanup_free_ char *key = strndup(argv[i], (size_t)(equals - argv[i]));
		if (!key || json_object_object_get_ex(set, key, NULL)) {
			*ret_exit = cli_wrong("tune: %s: given twice", argv[i]);
			return NULL;
		}
		json_object_object_add(set, key, json_object_new_string(equals + 1));
	}
	if (json_object_object_length(set) == 0)
		return NULL;
	json_object *request = cli_request("tune_set");
	json_object_object_add(request, "set", take_ptr(set));
	return request;
}

static int show(json_object *settings, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strchr(argv[i], '=') && !json_object_object_get_ex(settings, argv[i], NULL))
			return cli_wrong("%s: no such switch", argv[i]);
	}
	for (int i = 0; i < argc; i++) {
		if (!strchr(argv[i], '='))
			printf("%s=%s\n", argv[i], cli_string(settings, argv[i]));
	}
	if (argc > 0)
		return 0;
	json_object_object_foreach(settings, key, value)
		printf("%s=%s\n", key, json_object_get_string(value));
	return 0;
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	int code;

	opterr = 0;
	int c = getopt_long(argc, argv, ":", longs, NULL);
	if (c != -1)
		return cli_bad_option(c, argv);
	if (optind >= argc)
		return cli_wrong("tune: expected MOUNTPOINT [KEY[=VALUE]...]");
	const char *mountpoint = argv[optind++];
	json_object *request = changes_of(argc - optind, argv + optind, &code);
	if (!request && code != 0)
		return code;
	_cleanup_json_ json_object *answer =
		control_ask(mountpoint, request ? request : cli_request("tune_get"), &code);
	if (!answer)
		return code;
	return show(cli_get(answer, "settings"), argc - optind, argv + optind);
}

const struct cli_command cli_tune = {
	.name = "tune",
	.synopsis = "tune MOUNTPOINT [KEY[=VALUE]...]",
	.summary = "shows or changes the switches of a live mount",
	.details = "Without KEYs shows all. Several KEY=VALUEs are set together, or none of them "
		   "if one is wrong.\n"
		   "Changing is for the user who mounted and for root.\n",
	.run = run,
};
