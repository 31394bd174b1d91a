/* SPDX-License-Identifier: MIT */
/* Numbers and times as the quota tools print them, so that scripts made for those can read ours. */
#include "cli/private.h"

#include <inttypes.h>

#include "base/sizes.h"

const char *cli_format_blocks(int64_t bytes, bool human, char *buf, size_t len)
{
	if (human && bytes > 0)
		return format_size_human((uint64_t)bytes, buf, len);
	int64_t blocks = bytes < 0 ? bytes / 1024 : (int64_t)div_round_up((uint64_t)bytes, 1024);
	snprintf(buf, len, "%" PRId64, blocks);
	return buf;
}

const char *cli_format_inodes(int64_t inodes, bool human, char *buf, size_t len)
{
	if (human && inodes >= 100000000)
		snprintf(buf, len, "%" PRId64 "m", (inodes + 500000) / 1000000);
	else if (human && inodes >= 100000)
		snprintf(buf, len, "%" PRId64 "k", (inodes + 500) / 1000);
	else
		snprintf(buf, len, "%" PRId64, inodes);
	return buf;
}

const char *cli_format_period(int64_t seconds, char *buf, size_t len)
{
	int64_t minutes = (seconds + 30) / 60;
	int64_t hours = minutes / 60;
	int64_t days = hours / 24;

	if (days >= 2)
		snprintf(buf, len, "%" PRId64 "days", days);
	else
		snprintf(buf, len, "%02" PRId64 ":%02" PRId64, hours, minutes % 60);
	return buf;
}

const char *cli_format_grace(int64_t expire, int64_t now, char *buf, size_t len)
{
	if (expire == 0)
		snprintf(buf, len, "%s", "");
	else if (expire <= now)
		snprintf(buf, len, "%s", "none");
	else
		cli_format_period(expire - now, buf, len);
	return buf;
}

struct cli_entry cli_entry_of(json_object *object)
{
	return (struct cli_entry){
		.id = (uint32_t)cli_int(object, "id"),
		.bytes = cli_int(object, "bytes"),
		.bytes_soft = cli_int(object, "bytes_soft"),
		.bytes_hard = cli_int(object, "bytes_hard"),
		.bytes_expire = cli_int(object, "bytes_expire"),
		.inodes = cli_int(object, "inodes"),
		.inodes_soft = cli_int(object, "inodes_soft"),
		.inodes_hard = cli_int(object, "inodes_hard"),
		.inodes_expire = cli_int(object, "inodes_expire"),
	};
}

static bool is_over(int64_t used, int64_t soft, int64_t hard)
{
	return (soft && used > soft) || (hard && used >= hard);
}

bool cli_over_bytes(const struct cli_entry *entry)
{
	return is_over(entry->bytes, entry->bytes_soft, entry->bytes_hard);
}

bool cli_over_inodes(const struct cli_entry *entry)
{
	return is_over(entry->inodes, entry->inodes_soft, entry->inodes_hard);
}
