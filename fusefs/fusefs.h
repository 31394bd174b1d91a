/* SPDX-License-Identifier: MIT */
/* The daemon: where FUSE, quota and write-back meet. What the command line may ask of it. */
#ifndef FUSEFS_FUSEFS_H
#define FUSEFS_FUSEFS_H

#include <stdbool.h>
#include <stdint.h>

struct fs_mount_args {
	const char *backing;	/* NULL with scratch */
	const char *mountpoint;
	const char *options;	/* "key=value,..." of all -o, joined; may be NULL */
	bool scratch;
	bool foreground;
};

/** A mount's whole life. In the background (the default) it returns in the parent when the mount is usable and
 *  in the daemon never. The exit code: 0; 1 the world's fault, or something stayed dirty; 2 bad arguments. */
int fs_mount_run(const struct fs_mount_args *args);

/** One id whose recorded usage is not what the tree holds. */
struct fs_drift {
	int kind; /* enum quota_kind */
	uint32_t id;
	int64_t recorded_bytes, recorded_inodes;
	int64_t counted_bytes, counted_inodes;
};

struct fs_check_result {
	struct fs_drift *drifts; /* heap */
	size_t nr_drifts;
	uint64_t files;		 /* inodes counted */
	uint64_t limits_kept;	 /* by a repair of a damaged database */
	bool salvaged;
	bool repaired;
	bool unclean;		 /* the last mount did not end cleanly: usage would be recounted at the next */
};

/** quotacheck of a backing that is not mounted. 0, -errno with one line said on stderr; -EBUSY: served by a daemon. */
int fs_check_backing(const char *backing, bool repair, struct fs_check_result *ret_result);

/** One line per mount switch, KEY, VALUES, DEFAULT and MEANING with a tab between, for help texts; NULL after the last. */
const char *fs_settings_help(unsigned index);

#endif
