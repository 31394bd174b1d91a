/* SPDX-License-Identifier: MIT */
/* What every subcommand needs: complaints, and fields of answers. */
#include "cli/private.h"

#include <getopt.h>
#include <stdarg.h>
#include <string.h>

#include "fusefs/fusefs.h"

int cli_wrong(const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	log_error("%s", text ? text : "out of memory");
	return 2;
}

int cli_bad_option(int found, char **argv)
{
	/* A long option leaves no letter behind, but is the argument just passed. */
	const char *last = argv[optind - 1];
	char letter[3] = { '-', (char)optopt, '\0' };
	bool is_long = strncmp(last, "--", 2) == 0;

	return cli_wrong("%s: %s: %s", argv[0], is_long || !optopt ? last : letter,
			 found == ':' ? "needs a value" : "unknown option");
}

int cli_expect_args(int argc, char **argv, int first, int count, const char *what)
{
	if (argc - first > count)
		return cli_wrong("%s: %s: one argument too many", argv[0], argv[first + count]);
	if (argc - first < count)
		return cli_wrong("%s: expected %s", argv[0], what);
	return 0;
}

json_object *cli_request(const char *name)
{
	json_object *request = json_object_new_object();
	json_object_object_add(request, "cmd", json_object_new_string(name));
	return request;
}

json_object *cli_get(json_object *object, const char *key)
{
	return json_object_object_get(object, key);
}

int64_t cli_int(json_object *object, const char *key)
{
	return json_object_get_int64(cli_get(object, key));
}

const char *cli_string(json_object *object, const char *key)
{
	const char *text = json_object_get_string(cli_get(object, key));
	return text ? text : "";
}

void cli_print_json(json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_PRETTY_TAB |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
}

void cli_print_switches(void)
{
	const char *help;

	printf("\nSwitches, their values and defaults:\n");
	for (unsigned i = 0; (help = fs_settings_help(i)); i++) {
		int key = (int)strcspn(help, "\t");
		const char *values = help + key + 1;
		int len = (int)strcspn(values, "\t");
		const char *initial = values + len + 1;
		int initial_len = (int)strcspn(initial, "\t");
		printf("  %.*s=%.*s (%.*s)\n        %s\n", key, help, len, values, initial_len,
		       initial, initial + initial_len + 1);
	}
}
