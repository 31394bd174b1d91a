/* SPDX-License-Identifier: MIT */
/* Users and groups by name or number. */
#include "cli/private.h"

#include <grp.h>
#include <pwd.h>

#include "base/sizes.h"

const char *cli_kind_name(enum cli_kind kind)
{
	return kind == CLI_USER ? "user" : "group";
}

int cli_parse_id(enum cli_kind kind, const char *text, uint32_t *ret_id)
{
	const char *digits = text[0] == '#' ? text + 1 : text;
	uint64_t number;

	if (parse_u64(digits, &number) == 0) {
		/* -1 is "no id" to every system call. */
		if (number >= UINT32_MAX)
			return cli_wrong("%s: no such %s id", text, cli_kind_name(kind));
		*ret_id = (uint32_t)number;
		return 0;
	}
	const struct passwd *user = kind == CLI_USER ? getpwnam(text) : NULL;
	const struct group *group = kind == CLI_GROUP ? getgrnam(text) : NULL;
	if (!user && !group)
		return cli_wrong("%s: no such %s", text, cli_kind_name(kind));
	*ret_id = user ? user->pw_uid : group->gr_gid;
	return 0;
}

const char *cli_format_id(enum cli_kind kind, uint32_t id, bool numeric, char *buf, size_t len)
{
	const struct passwd *user = kind == CLI_USER && !numeric ? getpwuid(id) : NULL;
	const struct group *group = kind == CLI_GROUP && !numeric ? getgrgid(id) : NULL;

	if (user)
		snprintf(buf, len, "%s", user->pw_name);
	else if (group)
		snprintf(buf, len, "%s", group->gr_name);
	else
		snprintf(buf, len, "#%u", id);
	return buf;
}
