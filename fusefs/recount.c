/* SPDX-License-Identifier: MIT */
/*
 * Usage counted anew, and compared with what is recorded: after a crash, and for quotacheck.
 *
 * A live mount is frozen meanwhile (fs->freeze): no charge changes, so tree and record must agree exactly. What the tree cannot show is added:
 * files that are open and have no name left, and files whose pages could not be written back, which are counted by their maps.
 *
 * Charges are in blocks of a size that is chosen at the mount; the one that usage was counted with is kept in the private
 * directory, and another one makes a recount due.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/sizes.h"
#include "fusefs/tree.h"

#define DATABASE_NAME "quota.db"
#define BLOCK_SIZE_NAME "block_size"

static void quota_abandon_cleanup(struct quota **quota)
{
	quota_abandon(*quota);
}

void fs_check_result_fini(struct fs_check_result *result)
{
	free(take_ptr(result->drifts));
}

/* ---- the block size usage is counted with ---- */

/* 0 where it is not recorded. */
static uint32_t recorded_block_size(int private_fd)
{
	char text[16] = "";
	uint64_t size;
	_cleanup_close_ int fd = openat(private_fd, BLOCK_SIZE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	if (parse_u64(text, &size) < 0 || size < 4096 || size > 65536 || (size & (size - 1)))
		return 0;
	return (uint32_t)size;
}

static int record_block_size(int private_fd, uint32_t block_size)
{
	_cleanup_close_ int fd = openat(private_fd, BLOCK_SIZE_NAME,
					O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || dprintf(fd, "%u\n", block_size) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

bool fs_recount_is_due(struct fs *fs, bool clean)
{
	return !clean || recorded_block_size(fs->private_fd) != fs->settings.block_size;
}

int fs_recount(struct fs *fs)
{
	struct fs_tree tree = { .root_fd = fs->backing_fd,
				.block_size = fs->settings.block_size,
				.quota = fs->quota };
	quota_usage_clear(fs->quota);
	int r = record_block_size(fs->private_fd, fs->settings.block_size);
	if (r == 0)
		r = fs_tree_count(&tree);
	if (r == 0)
		quota_usage_settle(fs->quota);
	return r;
}

/* ---- comparing ---- */

static int add_drift(struct fs_check_result *result, enum quota_kind kind,
		     const struct quota_entry *recorded, const struct quota_entry *counted)
{
	if (recorded->usage.bytes == counted->usage.bytes &&
	    recorded->usage.inodes == counted->usage.inodes)
		return 0;
	struct fs_drift *drifts = reallocarray(result->drifts, result->nr_drifts + 1, sizeof(*drifts));
	if (!drifts)
		return -ENOMEM;
	result->drifts = drifts;
	drifts[result->nr_drifts++] = (struct fs_drift){
		.kind = kind,
		.id = recorded->id,
		.recorded_bytes = recorded->usage.bytes,
		.recorded_inodes = recorded->usage.inodes,
		.counted_bytes = counted->usage.bytes,
		.counted_inodes = counted->usage.inodes,
	};
	return 0;
}

/* Both lists are by ascending id; who is in one only has nothing in the other. */
static int compare_kind(struct fs_check_result *result, enum quota_kind kind, struct quota *recorded,
			struct quota *counted)
{
	_cleanup_free_ struct quota_entry *a = NULL, *b = NULL;
	size_t nr_a = 0, nr_b = 0, i = 0, j = 0;
	int r = quota_list(recorded, kind, &a, &nr_a);
	if (r == 0)
		r = quota_list(counted, kind, &b, &nr_b);
	while (r == 0 && (i < nr_a || j < nr_b)) {
		struct quota_entry none = { 0 };
		const struct quota_entry *left = &none, *right = &none;
		uint32_t id = i < nr_a && (j == nr_b || a[i].id <= b[j].id) ? a[i].id : b[j].id;
		none.id = id;
		if (i < nr_a && a[i].id == id)
			left = &a[i++];
		if (j < nr_b && b[j].id == id)
			right = &b[j++];
		r = add_drift(result, kind, left, right);
	}
	return r;
}

static int compare(struct fs_check_result *result, struct quota *recorded, struct quota *counted)
{
	int r = 0;
	for (int kind = 0; kind < QUOTA_KINDS && r == 0; kind++)
		r = compare_kind(result, (enum quota_kind)kind, recorded, counted);
	return r;
}

static void repair_drifts(struct quota *quota, struct fs_check_result *result)
{
	for (size_t i = 0; i < result->nr_drifts; i++) {
		const struct fs_drift *drift = &result->drifts[i];
		struct quota_usage usage = { drift->counted_bytes, drift->counted_inodes };
		quota_usage_set(quota, (enum quota_kind)drift->kind, drift->id, &usage);
	}
	result->repaired = true;
}

/* ---- a live mount ---- */

/* A file whose pages could not be written back. */
struct unwritten {
	uint64_t ino;
	uint64_t bytes;
};

struct live {
	struct fs *fs;
	struct quota *counted;
	struct unwritten *unwritten; /* by ino */
	size_t nr_unwritten;
	uint64_t nameless;
	int r;
};

static int live_add_unwritten(struct live *live, struct fs_inode *inode)
{
	struct unwritten *more = reallocarray(live->unwritten, live->nr_unwritten + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	live->unwritten = more;
	more[live->nr_unwritten++] = (struct unwritten){
		.ino = inode->ino,
		.bytes = fs_blocks_count(inode->blocks) * live->fs->settings.block_size,
	};
	return 0;
}

/* Adds what the tree cannot show. */
static void live_visit(struct fs_inode *inode, void *context)
{
	struct live *live = context;
	uint64_t bytes;
	int r = 0;

	FS_INODE_SCOPE(inode, false);
	if (inode->unlinked && !inode->refunded) {
		r = fs_inode_charged_bytes_locked(live->fs, inode, &bytes);
		if (r == 0)
			quota_usage_add(live->counted, &inode->owner, bytes, 1);
		live->nameless++;
	} else if (!inode->unlinked && inode->pages && inode->blocks &&
		   wb_file_is_dirty(inode->pages)) {
		r = live_add_unwritten(live, inode);
	}
	if (r < 0 && live->r == 0)
		live->r = r;
}

static int by_ino(const void *a, const void *b)
{
	const struct unwritten *left = a, *right = b;
	return (left->ino > right->ino) - (left->ino < right->ino);
}

static bool live_knows(void *context, uint64_t ino, uint64_t *ret_bytes)
{
	const struct live *live = context;
	const struct unwritten key = { .ino = ino };
	const struct unwritten *found = NULL;
	if (live->nr_unwritten > 0)
		found = bsearch(&key, live->unwritten, live->nr_unwritten, sizeof(key), by_ino);
	if (found)
		*ret_bytes = found->bytes;
	return found != NULL;
}

/* What the maps say is no longer believed either: they are read anew when next needed. */
static void forget_map(struct fs_inode *inode, void *context)
{
	FS_INODE_SCOPE(inode, true);
	if (!inode->blocks || (inode->pages && wb_file_is_dirty(inode->pages)))
		return;
	fs_blocks_free(take_ptr(inode->blocks));
}

static int check_frozen(struct live *live, bool repair, struct fs_check_result *result)
{
	struct fs *fs = live->fs;
	struct fs_tree tree = { .root_fd = fs->backing_fd,
				.block_size = fs->settings.block_size,
				.quota = live->counted,
				.known = live_knows,
				.context = live };

	/* What fails to be written stays dirty, and is counted by its map. */
	wb_cache_sync(fs->cache);
	fs_inodes_each(fs, live_visit, live);
	if (live->r < 0)
		return live->r;
	if (live->nr_unwritten > 0)
		qsort(live->unwritten, live->nr_unwritten, sizeof(*live->unwritten), by_ino);
	int r = fs_tree_count(&tree);
	if (r == 0)
		r = compare(result, fs->quota, live->counted);
	if (r < 0)
		return r;
	result->files = tree.inodes + live->nameless;
	if (repair && result->nr_drifts > 0) {
		repair_drifts(fs->quota, result);
		fs_inodes_each(fs, forget_map, NULL);
	}
	return 0;
}

int fs_check_live(struct fs *fs, bool repair, struct fs_check_result *ret_result)
{
	_cleanup_(quota_abandon_cleanup) struct quota *counted = NULL;
	_cleanup_(fs_check_result_fini) struct fs_check_result result = { 0 };
	struct live live = { .fs = fs };

	int r = quota_new_volatile(&counted);
	if (r < 0)
		return r;
	live.counted = counted;
	/* Most is written before anybody has to wait. */
	wb_cache_sync(fs->cache);
	pthread_rwlock_wrlock(&fs->freeze);
	r = check_frozen(&live, repair, &result);
	pthread_rwlock_unlock(&fs->freeze);
	free(live.unwritten);
	if (r < 0)
		return r;
	*ret_result = result;
	result.drifts = NULL;
	return 0;
}

/* ---- a backing that is not mounted ---- */

/* What a check needs of a mount. */
struct offline {
	struct fs *fs;
	char *database;
	int lock_fd;
};

static void offline_fini(struct offline *offline)
{
	cleanup_close(&offline->lock_fd);
	free(offline->database);
	if (!offline->fs)
		return;
	cleanup_close(&offline->fs->private_fd);
	cleanup_close(&offline->fs->backing_fd);
	quota_abandon(offline->fs->quota);
	free(offline->fs);
}

static int offline_init(const char *backing, struct offline *offline)
{
	struct fs *fs = offline->fs = calloc(1, sizeof(*fs));
	if (!fs || asprintf(&offline->database, "%s/" FS_PRIVATE_DIR "/" DATABASE_NAME, backing) < 0) {
		offline->database = NULL;
		return -ENOMEM;
	}
	fs->private_fd = -1;
	fs->backing_fd = open(backing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs->backing_fd < 0) {
		int r = -errno;
		log_error("%s: %s", backing, strerror(-r));
		return r;
	}
	fs->private_fd = openat(fs->backing_fd, FS_PRIVATE_DIR,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* Opening the database would make one. */
	if (fs->private_fd < 0 || faccessat(fs->private_fd, DATABASE_NAME, F_OK, 0) < 0) {
		int r = -errno;
		log_error("%s: not the backing of a chokefs: it has no " FS_PRIVATE_DIR "/" DATABASE_NAME,
			  backing);
		return r;
	}
	fs->settings.block_size = recorded_block_size(fs->private_fd);
	if (fs->settings.block_size == 0)
		fs->settings.block_size = WB_PAGE_SIZE;
	return fs_place_lock(fs->private_fd, backing, NULL, &offline->lock_fd);
}

static int offline_open(struct offline *offline, const char *backing, bool repair, bool *ret_clean,
			struct fs_check_result *result)
{
	_cleanup_free_ char *why = NULL;
	int r = quota_open(offline->database, &offline->fs->quota, ret_clean, &why);
	if (r == -EUCLEAN && repair) {
		r = quota_salvage(offline->database, &result->limits_kept);
		result->salvaged = r == 0;
		if (r == 0)
			r = quota_open(offline->database, &offline->fs->quota, ret_clean, NULL);
	} else if (r == -EUCLEAN) {
		log_error("%s: %s: `chokefs quotacheck --repair %s` rebuilds usage, limits that can be "
			  "read are kept",
			  offline->database, why ? why : "damaged", backing);
		return r;
	}
	if (r < 0)
		log_error("%s: %s", offline->database, strerror(-r));
	return r;
}

static int offline_compare(struct offline *offline, bool repair, struct fs_check_result *result)
{
	_cleanup_(quota_abandon_cleanup) struct quota *counted = NULL;
	struct fs *fs = offline->fs;
	struct fs_tree tree = { .root_fd = fs->backing_fd, .block_size = fs->settings.block_size };
	int r = quota_new_volatile(&counted);
	if (r < 0)
		return r;
	tree.quota = counted;
	r = fs_tree_count(&tree);
	if (r == 0)
		r = compare(result, fs->quota, counted);
	if (r == 0 && repair && result->nr_drifts > 0)
		repair_drifts(fs->quota, result);
	result->files = tree.inodes;
	return r;
}

static int check_offline(struct offline *offline, const char *backing, bool repair,
			 struct fs_check_result *result)
{
	bool clean;
	int r = offline_open(offline, backing, repair, &clean, result);
	if (r < 0)
		return r;
	if (!clean && !repair) {
		result->unclean = true;
		return 0; /* abandoned, and so left as it was found */
	}
	if (clean) {
		r = offline_compare(offline, repair, result);
	} else {
		r = fs_recount(offline->fs);
		result->repaired = r == 0;
	}
	/* Opening has marked it as in use. After a failure to count, it was clean before only if nothing was cleared. */
	if (r == 0 || clean) {
		int closed = quota_close(take_ptr(offline->fs->quota));
		if (closed < 0) {
			log_error("%s: %s", offline->database, strerror(-closed));
			return closed;
		}
	}
	return r;
}

int fs_check_backing(const char *backing, bool repair, struct fs_check_result *ret_result)
{
	_cleanup_(offline_fini) struct offline offline = { .lock_fd = -1 };
	_cleanup_(fs_check_result_fini) struct fs_check_result result = { 0 };
	int r = offline_init(backing, &offline);
	if (r == 0)
		r = check_offline(&offline, backing, repair, &result);
	if (r < 0)
		return r;
	*ret_result = result;
	result.drifts = NULL;
	return 0;
}
