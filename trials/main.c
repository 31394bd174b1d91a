/* SPDX-License-Identifier: MIT */
/* "chokefs trial list | show | run": the command line of trials. */
#include "trials/trials.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "trials/private.h"

#define MAX_FILE (1u << 20)

static const char usage[] = "usage: chokefs trial list\n"
			    "       chokefs trial show NAME|FILE\n"
			    "       chokefs trial run NAME|FILE [--set KEY=VALUE]... [--out DIR] [--json]\n";

struct run_args {
	const char *what, *out;
	struct trial_pairs settings;
	char *keys[TRIAL_MAX_ITEMS]; /* heap */
	bool json;
};

static void run_args_fini(struct run_args *args)
{
	for (size_t i = 0; i < args->settings.count; i++)
		free(args->keys[i]);
}

static int wrong(const char *what, const char *value)
{
	log_error("trial: %s%s%s", what, value ? ": " : "", value ? value : "");
	return 2;
}

static const char *builtin_text(const char *name)
{
	for (const struct trial_builtin *builtin = trial_builtins; builtin->name; builtin++)
		if (strcmp(builtin->name, name) == 0)
			return builtin->text;
	return NULL;
}

/* The text of a built-in trial or of a file, on the heap. 0 or the exit code. */
static int load_text(const char *what, char **ret_text)
{
	const char *builtin = builtin_text(what);
	if (builtin) {
		*ret_text = strdup(builtin);
		return *ret_text ? 0 : 1;
	}
	struct stat st;
	_cleanup_fclose_ FILE *file = fopen(what, "re");
	if (!file && errno == ENOENT && !strchr(what, '/'))
		return wrong("neither a built-in trial nor a file", what);
	if (!file || fstat(fileno(file), &st) < 0 || !S_ISREG(st.st_mode)) {
		log_error("trial: %s: %s", what, file ? "not a regular file" : strerror(errno));
		return 2;
	}
	_cleanup_free_ char *text = calloc(1, MAX_FILE + 2);
	size_t len = text ? fread(text, 1, MAX_FILE + 1, file) : 0;
	if (!text || ferror(file)) {
		log_error("trial: %s: %s", what, strerror(errno));
		return 1;
	}
	if (len > MAX_FILE || strlen(text) != len)
		return wrong("not a trial file (too long, or not text)", what);
	*ret_text = take_ptr(text);
	return 0;
}

static int load(const char *what, const struct trial_pairs *settings, struct trial **ret_trial)
{
	_cleanup_free_ char *text = NULL, *why = NULL;
	int r = load_text(what, &text);
	if (r != 0)
		return r;
	r = trial_parse(text, settings, ret_trial, &why);
	if (r < 0)
		log_error("trial: %s: %s", what, why ? why : strerror(-r));
	return r == 0 ? 0 : r == -EINVAL ? 2 : 1;
}

static int do_list(void)
{
	struct trial_pairs none = { .count = 0 };
	for (const struct trial_builtin *builtin = trial_builtins; builtin->name; builtin++) {
		_cleanup_trial_ struct trial *trial = NULL;
		int r = load(builtin->name, &none, &trial);
		if (r != 0)
			return r;
		printf("%-14s %s\n", trial->name, trial->title);
	}
	return 0;
}

static int do_show(const char *what)
{
	struct trial_pairs none = { .count = 0 };
	_cleanup_trial_ struct trial *trial = NULL;
	_cleanup_free_ char *text = NULL;
	int r = load(what, &none, &trial);
	if (r == 0)
		r = load_text(what, &text);
	if (r == 0)
		fputs(text, stdout);
	return r;
}

static int add_setting(struct run_args *args, const char *text)
{
	const char *equals = strchr(text, '=');
	if (!equals || equals == text)
		return wrong("--set: not KEY=VALUE", text);
	if (args->settings.count == TRIAL_MAX_ITEMS)
		return wrong("--set: too many", text);
	char *key = strndup(text, (size_t)(equals - text));
	if (!key)
		return 1;
	if (trial_pairs_get(&args->settings, key)) {
		wrong("--set: given twice", key);
		free(key);
		return 2;
	}
	args->keys[args->settings.count] = key;
	trial_pairs_set(&args->settings, key, equals + 1);
	return 0;
}

/* The value of "--name VALUE" or "--name=VALUE"; NULL when argv[*i] is another option. */
static const char *option_value(int argc, char **argv, int *i, const char *name, int *ret_r)
{
	size_t len = strlen(name);
	if (strncmp(argv[*i], name, len) != 0)
		return NULL;
	if (argv[*i][len] == '=')
		return argv[*i] + len + 1;
	if (argv[*i][len] != '\0')
		return NULL;
	if (*i + 1 == argc) {
		log_error("trial: %s: needs a value", name);
		*ret_r = 2;
		return NULL;
	}
	return argv[++*i];
}

static int check_over(const char *over)
{
	if (strcmp(over, "local") == 0)
		return 0;
	if (strcmp(over, "nfs") == 0)
		return wrong("--over: nfs is not available in this version", NULL);
	return wrong("--over: neither local nor nfs", over);
}

static int parse_run_args(int argc, char **argv, struct run_args *args)
{
	int r = 0;
	for (int i = 1; r == 0 && i < argc; i++) {
		const char *value;
		if (strcmp(argv[i], "--json") == 0)
			args->json = true;
		else if ((value = option_value(argc, argv, &i, "--set", &r)))
			r = add_setting(args, value);
		else if (r == 0 && (value = option_value(argc, argv, &i, "--out", &r)))
			args->out = value;
		else if (r == 0 && (value = option_value(argc, argv, &i, "--over", &r)))
			r = check_over(value);
		else if (r == 0 && argv[i][0] == '-')
			r = wrong("unknown option", argv[i]);
		else if (r == 0 && args->what)
			r = wrong("one trial at a time", argv[i]);
		else if (r == 0)
			args->what = argv[i];
	}
	return r == 0 && !args->what ? wrong("run: which trial?", NULL) : r;
}

static int do_run(int argc, char **argv)
{
	_cleanup_(run_args_fini) struct run_args args = { 0 };
	_cleanup_trial_ struct trial *trial = NULL;
	int r = parse_run_args(argc, argv, &args);
	if (r == 0)
		r = load(args.what, &args.settings, &trial);
	if (r != 0)
		return r;
	/* A minute later is too late to learn that there is no place for the report. */
	if (args.out && trial_report_prepare(args.out) < 0)
		return 1;
	_cleanup_(trial_results_fini) struct trial_results results = { 0 };
	r = trial_run(trial, &results);
	if (r != 0)
		return r;
	if (args.json) {
		_cleanup_json_ json_object *object = trial_results_json(&results);
		printf("%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY));
	} else {
		trial_print_tables(&results, stdout);
		trial_print_verdicts(&results, stdout);
	}
	if (args.out && trial_report(&results, args.out) < 0)
		return 1;
	if (fflush(stdout) != 0) {
		log_error("trial: stdout: %s", strerror(errno));
		return 1;
	}
	return results.passed ? 0 : 1;
}

int trials_main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (strcmp(command, "list") == 0)
		return argc == 2 ? do_list() : wrong("list takes no argument", argv[2]);
	if (strcmp(command, "show") == 0)
		return argc == 3 ? do_show(argv[2]) : wrong("show: which one trial?", NULL);
	if (strcmp(command, "run") == 0)
		return do_run(argc - 1, argv + 1);
	return *command ? wrong("neither list, show nor run", command) : wrong("list, show or run?", NULL);
}
