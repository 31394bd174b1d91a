/* SPDX-License-Identifier: MIT */
/*
 * Reads what follows -o: our switches, the options every mount has, and FUSE's.
 *
 * A misspelt switch that is passed over in silence makes a test prove nothing, so an option is
 * known or it is an error. Options that only mean something to mount(8) and fstab are accepted and
 * dropped, because mount helpers are handed them.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/sizes.h"

/* Handed to the kernel by libfuse. */
static const char *const kernel_options[] = {
	"ro",   "rw",    "suid",    "nosuid", "dev",     "nodev",        "exec", "noexec",
	"sync", "async", "dirsync", "atime",  "noatime", "auto_unmount", NULL,
};

/* Of no meaning here: mount(8)'s own, and what holds anyway. */
static const char *const dropped_options[] = {
	"defaults",
	"auto",
	"noauto",
	"user",
	"nouser",
	"users",
	"owner",
	"group",
	"nofail",
	"_netdev",
	"relatime",
	"norelatime",
	"strictatime",
	"diratime",
	"nostrictatime",
	"lazytime",
	"nolazytime",
	"nodiratime",
	"silent",
	"loud",
	"iversion",
	"noiversion",
	"default_permissions",
	"subtype=chokefs",
	NULL,
};

static const char *const dropped_prefixes[] = { "x-", "X-", "comment=", "user=", NULL };
static const char *const kernel_prefixes[] = { "context=", "fscontext=", "defcontext=",
					       "rootcontext=", NULL };

static bool is_one_of(const char *const *names, const char *option)
{
	for (; *names; names++) {
		if (strcmp(*names, option) == 0)
			return true;
	}
	return false;
}

static bool has_prefix_of(const char *const *prefixes, const char *option)
{
	for (; *prefixes; prefixes++) {
		if (strncmp(*prefixes, option, strlen(*prefixes)) == 0)
			return true;
	}
	return false;
}

void fs_options_fini(struct fs_options *options)
{
	free(options->kernel);
	options->kernel = NULL;
}

static int add_kernel(struct fs_options *options, const char *option)
{
	char *joined = NULL;
	if (asprintf(&joined, "%s%s%s", options->kernel ? options->kernel : "",
		     options->kernel ? "," : "", option) < 0)
		return -ENOMEM;
	free(options->kernel);
	options->kernel = joined;
	return 0;
}

/* max_read=, max_write=: whole pages, at most what one request can carry. */
static int parse_transfer(const char *option, const char *value, unsigned *ret_bytes)
{
	uint64_t bytes;
	if (!value || parse_size(value, 1, &bytes) < 0 || bytes < WB_PAGE_SIZE ||
	    bytes > WB_MAX_READ || bytes % WB_PAGE_SIZE) {
		log_error("%s: not a size from 4K to 1M in whole pages", option);
		return -EINVAL;
	}
	*ret_bytes = (unsigned)bytes;
	return 0;
}

static int set_switch(struct fs *fs, const char *key, const char *value)
{
	_cleanup_free_ char *why = NULL;
	if (!value) {
		log_error("%s: needs a value", key);
		return -EINVAL;
	}
	int r = fs_settings_set(fs, key, value, true, &why);
	if (r < 0)
		log_error("%s", why ? why : strerror(-r));
	return r;
}

/* What is spelt KEY=VALUE and is not merely passed on. 1 if it was none of ours. */
static int parse_pair(struct fs *fs, const char *option, struct fs_options *options)
{
	_cleanup_free_ char *key = strdup(option);
	if (!key)
		return -ENOMEM;
	char *value = key;
	strsep(&value, "=");

	if (fs_settings_is_key(key))
		return set_switch(fs, key, value);
	if (strcmp(key, "max_write") == 0)
		return parse_transfer(option, value, &fs->max_write);
	if (strcmp(key, "max_read") == 0) {
		char text[32];
		int r = parse_transfer(option, value, &fs->max_read);
		snprintf(text, sizeof(text), "max_read=%u", fs->max_read);
		return r < 0 ? r : add_kernel(options, text);
	}
	return 1;
}

struct seen {
	bool closed, other, root;
};

/* Who may come in: 1 if @option says nothing of that. */
static int parse_access(const char *option, struct seen *seen)
{
	if (strcmp(option, "private") == 0)
		seen->closed = true;
	else if (strcmp(option, "allow_other") == 0)
		seen->other = true;
	else if (strcmp(option, "allow_root") == 0)
		seen->root = true;
	else
		return 1;
	return 0;
}

static int parse_option(struct fs *fs, const char *option, struct seen *seen,
			struct fs_options *options)
{
	if (is_one_of(dropped_options, option) || has_prefix_of(dropped_prefixes, option))
		return 0;
	if (is_one_of(kernel_options, option) || has_prefix_of(kernel_prefixes, option)) {
		if (strcmp(option, "ro") == 0 || strcmp(option, "rw") == 0)
			fs->read_only = option[1] == 'o';
		return add_kernel(options, option);
	}
	int r = parse_access(option, seen);
	if (r <= 0)
		return r;
	r = parse_pair(fs, option, options);
	if (r <= 0)
		return r;
	if (strcmp(option, "remount") == 0)
		log_error("remount: a mount is changed live by `chokefs tune`");
	else
		log_error("%s: unknown mount option", option);
	return -EINVAL;
}

static int settle_access(struct fs *fs, const struct seen *seen, struct fs_options *options)
{
	if (seen->closed + seen->other + seen->root > 1) {
		log_error("private, allow_other, allow_root: only one of them can be");
		return -EINVAL;
	}
	options->allow_other = seen->other || (fs->is_root && !seen->closed && !seen->root);
	return seen->root ? add_kernel(options, "allow_root") : 0;
}

int fs_options_parse(struct fs *fs, const char *text, struct fs_options *ret_options)
{
	_cleanup_(fs_options_fini) struct fs_options options = { 0 };
	_cleanup_free_ char *copy = strdup(text ? text : "");
	struct seen seen = { 0 };
	char *rest = copy;

	if (!copy)
		return -ENOMEM;
	while (rest) {
		const char *option = strsep(&rest, ",");
		if (!*option)
			continue; /* as mount(8) does */
		int r = parse_option(fs, option, &seen, &options);
		if (r < 0)
			return r;
	}
	int r = settle_access(fs, &seen, &options);
	if (r < 0)
		return r;
	*ret_options = options;
	options.kernel = NULL;
	return 0;
}
