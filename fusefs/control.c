/* SPDX-License-Identifier: MIT */
/*
 * What the control channel may ask of a mount, and who may ask it.
 *
 * One table: name, right, function. Reading counters, switches and one's own quota is for
 * everybody, as the counters of a kernel are; the rest is for the user who mounted and for root. No
 * function here takes an inode lock: the channel must answer while every worker is stalled behind
 * one. Requests and answers are listed in control/README.md.
 */
#include "fusefs/private.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "base/log.h"

struct command {
	const char *name;
	bool for_owner; /* the mounter and root alone */
	json_object *(*run)(struct fs *fs, const struct control_peer *peer, json_object *request);
};

static bool is_owner(const struct fs *fs, const struct control_peer *peer)
{
	return peer->uid == 0 || peer->uid == fs->mounter;
}

static json_object *failed(const struct fs *fs, const char *what, int error)
{
	return control_error(1, "%s: %s: %s", fs->mountpoint, what, strerror(-error));
}

/* ---- fields of a request ---- */

static bool get_u64(json_object *request, const char *key, uint64_t *ret_value)
{
	json_object *value;
	if (!json_object_object_get_ex(request, key, &value) ||
	    !json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
		return false;
	*ret_value = json_object_get_uint64(value);
	return true;
}

static bool get_kind(json_object *request, enum quota_kind *ret_kind)
{
	const char *kind = json_object_get_string(json_object_object_get(request, "kind"));
	if (kind && strcmp(kind, "user") == 0)
		*ret_kind = QUOTA_USER;
	else if (kind && strcmp(kind, "group") == 0)
		*ret_kind = QUOTA_GROUP;
	else
		return false;
	return true;
}

static bool get_id(json_object *request, uint32_t *ret_id)
{
	uint64_t id;
	if (!get_u64(request, "id", &id) || id > UINT32_MAX)
		return false;
	*ret_id = (uint32_t)id;
	return true;
}

static json_object *bad_request(const char *what)
{
	return control_error(2, "request: %s is missing or not as it should be", what);
}

/* ---- the mount ---- */

static json_object *do_ping(struct fs *fs, const struct control_peer *peer, json_object *request)
{
	json_object *answer = control_ok();
	json_object_object_add(answer, "pid", json_object_new_int(getpid()));
	json_object_object_add(answer, "version", json_object_new_string(CHOKEFS_VERSION));
	json_object_object_add(answer, "mountpoint", json_object_new_string(fs->mountpoint));
	json_object_object_add(answer, "backing", json_object_new_string(fs->backing));
	return answer;
}

static json_object *do_stats(struct fs *fs, const struct control_peer *peer, json_object *request)
{
	json_object *answer = control_ok();
	json_object_object_add(answer, "stats", fs_stats_json(fs));
	return answer;
}

static json_object *do_stats_reset(struct fs *fs, const struct control_peer *peer,
				   json_object *request)
{
	json_object *answer = do_stats(fs, peer, request);
	fs_stats_reset(fs);
	return answer;
}

static json_object *do_tune_get(struct fs *fs, const struct control_peer *peer,
				json_object *request)
{
	json_object *answer = control_ok();
	json_object_object_add(answer, "settings", fs_settings_json(fs));
	return answer;
}

static json_object *do_tune_set(struct fs *fs, const struct control_peer *peer,
				json_object *request)
{
	json_object *set = json_object_object_get(request, "set");
	_cleanup_free_ struct fs_switch *changes = NULL;
	_cleanup_free_ char *why = NULL;
	size_t nr = 0;

	if (!json_object_is_type(set, json_type_object))
		return bad_request("set");
	changes = calloc((size_t)json_object_object_length(set) + 1, sizeof(*changes));
	if (!changes)
		return failed(fs, "tune", -ENOMEM);
	json_object_object_foreach(set, key, value)
	{
		if (!json_object_is_type(value, json_type_string))
			return bad_request(key);
		changes[nr++] =
			(struct fs_switch){ .key = key, .value = json_object_get_string(value) };
	}
	int r = fs_settings_change(fs, changes, nr, false, &why);
	if (r < 0)
		return control_error(2, "%s", why ? why : strerror(-r));
	return do_tune_get(fs, peer, request);
}

/* What could not be written is an answer, not a failure to answer. */
static json_object *drain_answer(json_object *paths, int error)
{
	json_object *answer = control_ok();
	json_object_object_add(answer, "unwritten", paths);
	if (error < 0)
		json_object_object_add(answer, "reason", json_object_new_string(strerror(-error)));
	return answer;
}

static json_object *do_drain(struct fs *fs, const struct control_peer *peer, json_object *request)
{
	json_object *paths;
	int r = fs_drain(fs, &paths);
	return drain_answer(paths, r);
}

static json_object *do_umount(struct fs *fs, const struct control_peer *peer, json_object *request)
{
	json_object *paths;
	int error;
	int r = fs_life_umount(fs->life, &paths, &error);
	if (r == -EBUSY)
		return control_error(1, "%s: busy: it is in use", fs->mountpoint);
	if (r < 0)
		return failed(fs, "cannot unmount", r);
	return drain_answer(paths, error);
}

/* ---- quotas ---- */

static json_object *entry_json(const struct quota_entry *entry)
{
	json_object *object = json_object_new_object();
	json_object_object_add(object, "id", json_object_new_int64(entry->id));
	json_object_object_add(object, "bytes", json_object_new_int64(entry->usage.bytes));
	json_object_object_add(object, "bytes_soft",
			       json_object_new_uint64(entry->limits.bytes_soft));
	json_object_object_add(object, "bytes_hard",
			       json_object_new_uint64(entry->limits.bytes_hard));
	json_object_object_add(object, "bytes_expire", json_object_new_int64(entry->bytes_expire));
	json_object_object_add(object, "inodes", json_object_new_int64(entry->usage.inodes));
	json_object_object_add(object, "inodes_soft",
			       json_object_new_uint64(entry->limits.inodes_soft));
	json_object_object_add(object, "inodes_hard",
			       json_object_new_uint64(entry->limits.inodes_hard));
	json_object_object_add(object, "inodes_expire",
			       json_object_new_int64(entry->inodes_expire));
	return object;
}

/* What a report says beside its entries. */
static json_object *quota_answer(struct fs *fs, enum quota_kind kind)
{
	static const char *const enforce[] = { "off", "on", "root" };
	json_object *answer = control_ok();
	json_object *object = json_object_new_object();
	struct quota_grace grace;

	quota_get_grace(fs->quota, kind, &grace);
	json_object_object_add(object, "bytes_seconds",
			       json_object_new_uint64(grace.bytes_seconds));
	json_object_object_add(object, "inodes_seconds",
			       json_object_new_uint64(grace.inodes_seconds));
	json_object_object_add(answer, "grace", object);
	json_object_object_add(answer, "now", json_object_new_int64(quota_now(fs->quota)));
	json_object_object_add(answer, "backing", json_object_new_string(fs->backing));
	json_object_object_add(answer, "mountpoint", json_object_new_string(fs->mountpoint));
	json_object_object_add(answer, "enforce",
			       json_object_new_string(enforce[atomic_load(&fs->settings.enforce)]));
	return answer;
}

/* Is @gid one of the peer's groups, as the user database has them? */
static bool is_in_group(const struct control_peer *peer, gid_t gid)
{
	struct passwd entry, *found;
	gid_t groups[256];
	char buf[4096];
	int count = 256;

	if (peer->gid == gid)
		return true;
	if (getpwuid_r(peer->uid, &entry, buf, sizeof(buf), &found) != 0 || !found)
		return false;
	if (getgrouplist(found->pw_name, found->pw_gid, groups, &count) < 0)
		count = 256;
	for (int i = 0; i < count; i++) {
		if (groups[i] == gid)
			return true;
	}
	return false;
}

static json_object *do_quota(struct fs *fs, const struct control_peer *peer, json_object *request)
{
	struct quota_entry entry;
	enum quota_kind kind;
	uint32_t id;

	if (!get_kind(request, &kind))
		return bad_request("kind");
	if (!get_id(request, &id))
		return bad_request("id");
	bool own = kind == QUOTA_USER ? id == peer->uid : is_in_group(peer, id);
	if (!own && !is_owner(fs, peer))
		return control_error(1, "%s: quota of %s %u: %s", fs->mountpoint,
				     kind == QUOTA_USER ? "user" : "group", id, strerror(EPERM));
	quota_get(fs->quota, kind, id, &entry);
	json_object *answer = quota_answer(fs, kind);
	json_object_object_add(answer, "entry", entry_json(&entry));
	return answer;
}

static json_object *do_repquota(struct fs *fs, const struct control_peer *peer,
				json_object *request)
{
	_cleanup_free_ struct quota_entry *entries = NULL;
	enum quota_kind kind;
	size_t count;

	if (!get_kind(request, &kind))
		return bad_request("kind");
	int r = quota_list(fs->quota, kind, &entries, &count);
	if (r < 0)
		return failed(fs, "repquota", r);
	json_object *answer = quota_answer(fs, kind);
	json_object *list = json_object_new_array();
	for (size_t i = 0; i < count; i++)
		json_object_array_add(list, entry_json(&entries[i]));
	json_object_object_add(answer, "entries", list);
	return answer;
}

static json_object *do_setquota(struct fs *fs, const struct control_peer *peer,
				json_object *request)
{
	struct quota_limits limits;
	enum quota_kind kind;
	uint32_t id;

	if (!get_kind(request, &kind))
		return bad_request("kind");
	if (!get_id(request, &id))
		return bad_request("id");
	if (!get_u64(request, "bytes_soft", &limits.bytes_soft) ||
	    !get_u64(request, "bytes_hard", &limits.bytes_hard) ||
	    !get_u64(request, "inodes_soft", &limits.inodes_soft) ||
	    !get_u64(request, "inodes_hard", &limits.inodes_hard))
		return bad_request("limit");
	int r = quota_set_limits(fs->quota, kind, id, &limits);
	return r < 0 ? failed(fs, "setquota", r) : control_ok();
}

static json_object *do_setgrace(struct fs *fs, const struct control_peer *peer,
				json_object *request)
{
	struct quota_grace grace;
	enum quota_kind kind;

	if (!get_kind(request, &kind))
		return bad_request("kind");
	if (!get_u64(request, "bytes_seconds", &grace.bytes_seconds) ||
	    !get_u64(request, "inodes_seconds", &grace.inodes_seconds))
		return bad_request("grace");
	int r = quota_set_grace(fs->quota, kind, &grace);
	return r < 0 ? failed(fs, "setquota", r) : control_ok();
}

static json_object *drift_json(const struct fs_drift *drift)
{
	json_object *object = json_object_new_object();
	json_object_object_add(
		object, "kind",
		json_object_new_string(drift->kind == QUOTA_USER ? "user" : "group"));
	json_object_object_add(object, "id", json_object_new_int64(drift->id));
	json_object_object_add(object, "recorded_bytes",
			       json_object_new_int64(drift->recorded_bytes));
	json_object_object_add(object, "recorded_inodes",
			       json_object_new_int64(drift->recorded_inodes));
	json_object_object_add(object, "counted_bytes",
			       json_object_new_int64(drift->counted_bytes));
	json_object_object_add(object, "counted_inodes",
			       json_object_new_int64(drift->counted_inodes));
	return object;
}

static json_object *do_quotacheck(struct fs *fs, const struct control_peer *peer,
				  json_object *request)
{
	_cleanup_(fs_check_result_fini) struct fs_check_result result = { 0 };
	bool repair = json_object_get_boolean(json_object_object_get(request, "repair"));

	int r = fs_check_live(fs, repair, &result);
	if (r < 0)
		return failed(fs, "quotacheck", r);
	json_object *answer = control_ok();
	json_object *drifts = json_object_new_array();
	for (size_t i = 0; i < result.nr_drifts; i++)
		json_object_array_add(drifts, drift_json(&result.drifts[i]));
	json_object_object_add(answer, "files", json_object_new_uint64(result.files));
	json_object_object_add(answer, "repaired", json_object_new_boolean(result.repaired));
	json_object_object_add(answer, "drifts", drifts);
	return answer;
}

/* ---- the table ---- */

static const struct command commands[] = {
	{ "ping", false, do_ping },
	{ "stats", false, do_stats },
	{ "stats_reset", true, do_stats_reset },
	{ "tune_get", false, do_tune_get },
	{ "tune_set", true, do_tune_set },
	{ "quota", false, do_quota },
	{ "repquota", true, do_repquota },
	{ "setquota", true, do_setquota },
	{ "setgrace", true, do_setgrace },
	{ "quotacheck", true, do_quotacheck },
	{ "drain", true, do_drain },
	{ "umount", true, do_umount },
};

json_object *fs_control_handle(void *context, const struct control_peer *peer, json_object *request)
{
	struct fs *fs = context;
	const char *name = json_object_get_string(json_object_object_get(request, "cmd"));

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (commands[i].for_owner && !is_owner(fs, peer))
			return control_error(1, "%s: %s: only for root and the user who mounted it",
					     fs->mountpoint, name);
		return commands[i].run(fs, peer, request);
	}
	return control_error(2, "%s: no such command", name);
}
