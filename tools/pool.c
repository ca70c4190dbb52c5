// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab pool: create, list, stat, set, destroy, policy. */
#include "pool.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "msg.h"

#define DEF_MODE 0660

enum {
	KEY_MIN = 0x100,
	KEY_MAX,
	KEY_OWNER,
	KEY_GROUP,
	KEY_MODE,
	KEY_NUMA,
	KEY_CGROUP,
	KEY_LOW,
	KEY_HIGH,
	KEY_DEVICE_MAX,
	KEY_FORCE,
	KEY_JSON,
};

struct pool_opts {
	const char *name, *cgroup;
	uint64_t min, max, device_max;
	uint32_t uid, gid, mode, low, high;
	int node;
	bool has_min, has_max, has_uid, has_gid, has_mode, has_low, has_high, has_device_max, force, json;
};

/* What set leaves out stays. */
#define SIZE_OPTIONS(min, max, owner, group, mode, low, high, device_max)                                      \
	{ "min", KEY_MIN, "SIZE", 0, "What it is guaranteed, set aside now " min, 0 },                         \
	{ "max", KEY_MAX, "SIZE", 0, "What it may hold " max, 0 },                                             \
	{ "owner", KEY_OWNER, "USER", 0, "Who owns the node, by name or number " owner, 0 },                   \
	{ "group", KEY_GROUP, "GROUP", 0, "The node's group, by name or number " group, 0 },                   \
	{ "mode", KEY_MODE, "MODE", 0, "The node's permissions, octal, up to 0666 " mode, 0 },                 \
	{ "low", KEY_LOW, "PERCENT", 0, "Relief comes when so much of the limit is held " low, 0 },            \
	{ "high", KEY_HIGH, "PERCENT", 0, "Pressure begins when more of the limit is held " high, 0 },         \
	{ "device-max", KEY_DEVICE_MAX, "SIZE", 0, "Device memory that its clients may bring into it " device_max, 0 }
#define STAYS "(default: as it is)"

#define JSON_OPTION { "json", KEY_JSON, 0, 0, "Print JSON, an object for each pool, one a line (default: text)", 0 }

static const struct argp_option create_options[] = {
	SIZE_OPTIONS("(default: 0)", "(required)", "(default: you)", "(default: yours)", "(default: 0660)", "(default: 75)",
		     "(default: 90)", "(default: 0)"),
	{ "numa", KEY_NUMA, "NODE", 0, "Take memory of this NUMA node (default: any)", 0 },
	{ "cgroup", KEY_CGROUP, "PATH", 0,
	  "Charge its memory to this control group, as /sys/fs/cgroup/kv or kv (default: that of this command)", 0 },
	JSON_OPTION,
	{ 0 }
};
static const struct argp_option set_options[] = {
	SIZE_OPTIONS(STAYS, STAYS, STAYS, STAYS, STAYS, STAYS, STAYS, STAYS), JSON_OPTION, { 0 }
};
static const struct argp_option look_options[] = { JSON_OPTION, { 0 } };
static const struct argp_option destroy_options[] = {
	{ "force", KEY_FORCE, 0, 0, "Even if it has clients: their calls fail from then on (default: not then)", 0 },
	JSON_OPTION,
	{ 0 }
};

static uint64_t arg_extents(const char *option, const char *arg)
{
	uint64_t size = arg_size(option, arg);

	if (size < KVSLAB_CMD_EXTENT)
		die("%s is %llu bytes, less than an extent; give %uM or more", option, (unsigned long long)size,
		    POOL_EXTENT_MIB);
	return size;
}

static uint32_t arg_user(const char *arg)
{
	const struct passwd *pw = getpwnam(arg);

	return pw ? pw->pw_uid : (uint32_t)arg_u64("--owner (no user has that name)", arg, 0, UINT32_MAX - 1);
}

static uint32_t arg_group(const char *arg)
{
	const struct group *gr = getgrnam(arg);

	return gr ? gr->gr_gid : (uint32_t)arg_u64("--group (no group has that name)", arg, 0, UINT32_MAX - 1);
}

static uint32_t arg_mode(const char *arg)
{
	char *end;
	unsigned long mode = strtoul(arg, &end, 8);

	if (*arg < '0' || *arg > '7' || *end || mode & ~0666ul)
		die("--mode is \"%s\"; give octal permissions to read and write, as 0660", arg);
	return (uint32_t)mode;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pool_opts *o = state->input;

	switch (key) {
	case KEY_MIN:
		o->min = !strcmp(arg, "0") ? 0 : arg_extents("--min", arg);
		o->has_min = true;
		return 0;
	case KEY_MAX:
		o->max = arg_extents("--max", arg);
		o->has_max = true;
		return 0;
	case KEY_DEVICE_MAX:
		o->device_max = !strcmp(arg, "0") ? 0 : arg_extents("--device-max", arg);
		o->has_device_max = true;
		return 0;
	case KEY_OWNER:
		o->uid = arg_user(arg);
		o->has_uid = true;
		return 0;
	case KEY_GROUP:
		o->gid = arg_group(arg);
		o->has_gid = true;
		return 0;
	case KEY_MODE:
		o->mode = arg_mode(arg);
		o->has_mode = true;
		return 0;
	case KEY_NUMA:
		o->node = (int)arg_u64("--numa", arg, 0, 1023);
		return 0;
	case KEY_CGROUP:
		o->cgroup = arg;
		return 0;
	case KEY_LOW:
		o->low = (uint32_t)(arg_real("--low", arg, 0.1, 100) * 10);
		o->has_low = true;
		return 0;
	case KEY_HIGH:
		o->high = (uint32_t)(arg_real("--high", arg, 0.1, 100) * 10);
		o->has_high = true;
		return 0;
	case KEY_FORCE:
		o->force = true;
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->name)
			die("\"%s\" is one word too many; one pool at a time", arg);
		pool_check_name(arg);
		o->name = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (o->has_min && o->has_max && o->min > o->max)
			die("--min is more than --max; what is guaranteed must be within the limit");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void need_name(const struct pool_opts *o)
{
	if (!o->name)
		die("no pool is named; give its NAME");
}

static int print_pool(const char *name, bool json)
{
	struct pool_view v = { 0 };
	int rc = pool_look(&v, name);

	if (!rc && json)
		rc = out_json(pool_json(&v));
	else if (!rc)
		pool_print(&v);
	pool_view_free(&v);
	return rc ? 1 : 0;
}

/* A name, or a path under the place where control groups are mounted. */
static int open_cgroup(const char *path)
{
	char full[4096];
	int fd;

	snprintf(full, sizeof(full), "%s%s", *path == '/' || *path == '.' ? "" : "/sys/fs/cgroup/", path);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		die("--cgroup %s: %s; give a folder of the control groups, as /sys/fs/cgroup/kv", full, strerror(errno));
	return fd;
}

static void say_no_guarantee(const struct pool_opts *o)
{
	char **names = pool_names();
	struct pool_view v = { 0 };
	uint64_t taken = 0, all = 0;
	size_t i;

	for (i = 0; names && names[i]; i++) {
		if (o->name && !strcmp(names[i], o->name))
			continue;
		if (!pool_look(&v, names[i])) {
			taken += v.pool.min;
			all = v.pool.arena_extents;
		}
		pool_view_free(&v);
	}
	pool_names_free(names);
	if (all)
		msg("--min %llu MiB cannot be guaranteed: the arena has %llu MiB, %llu MiB of it are guaranteed to other "
		    "pools; give less, or lower theirs with kvslab pool set", (unsigned long long)(o->min >> 20),
		    (unsigned long long)all * POOL_EXTENT_MIB, (unsigned long long)taken * POOL_EXTENT_MIB);
	else
		msg("--min %llu MiB cannot be guaranteed: the module's arena is smaller; give less",
		    (unsigned long long)(o->min >> 20));
}

static int create(struct pool_opts *o)
{
	struct kvslab_args_create args = { .cgroup_fd = -1 };
	int rc;

	need_name(o);
	if (!o->has_max)
		die("--max is not given; say how much %s may hold, as --max 4G", o->name);
	strcpy(args.name, o->name);
	args.min = o->min;
	args.max = o->max;
	args.uid = o->has_uid ? o->uid : getuid();
	args.gid = o->has_gid ? o->gid : getgid();
	args.mode = o->has_mode ? o->mode : DEF_MODE;
	args.node = o->node;
	args.low = o->low;
	args.high = o->high;
	args.device_max = o->device_max;
	if (o->cgroup) {
		args.cgroup_fd = open_cgroup(o->cgroup);
		args.flags = KVSLAB_POOL_CGROUP;
	}
	rc = pool_control(KVSLAB_CTL_CREATE, &args, sizeof(args));
	if (args.cgroup_fd >= 0)
		close(args.cgroup_fd);
	if (rc >= 0) {
		if (o->json)
			return print_pool(o->name, true);
		out_text(POOL_FOLDER "/%s\n", o->name);
		return 0;
	}
	if (rc == -EEXIST)
		msg("there is a pool \"%s\" already; take another name, or change it with kvslab pool set", o->name);
	else if (rc == -ENOSPC)
		say_no_guarantee(o);
	else if (rc == -EINVAL && o->node >= 0)
		msg("--numa %d is no NUMA node with memory here, or a size is beyond the arena", o->node);
	else if (rc == -EINVAL)
		msg("the module refuses these sizes: --max may be at most its arena, --low at most --high");
	else if (rc == -EBADF)
		msg("--cgroup %s is no control group", o->cgroup ? o->cgroup : "");
	else
		return pool_told(rc, "kvslab pool create");
	return 1;
}

static int set(struct pool_opts *o)
{
	struct kvslab_args_set args = { 0 };
	struct pool_view v = { 0 };
	int rc;

	need_name(o);
	rc = pool_look(&v, o->name);
	if (rc)
		return 1;
	strcpy(args.name, o->name);
	args.min = o->min;
	args.max = o->max;
	args.uid = o->has_uid ? o->uid : v.pool.uid;
	args.gid = o->has_gid ? o->gid : v.pool.gid;
	args.mode = o->mode;
	args.low = o->has_low ? o->low : v.pool.max ? (uint32_t)(v.pool.low * 1000 / v.pool.max) : 0;
	args.high = o->has_high ? o->high : v.pool.max ? (uint32_t)(v.pool.high * 1000 / v.pool.max) : 0;
	args.device_max = o->device_max;
	args.mask = (o->has_min ? KVSLAB_SET_MIN : 0) | (o->has_max ? KVSLAB_SET_MAX : 0) |
		    (o->has_uid || o->has_gid ? KVSLAB_SET_OWNER : 0) | (o->has_mode ? KVSLAB_SET_MODE : 0) |
		    (o->has_low || o->has_high ? KVSLAB_SET_MARKS : 0) |
		    (o->has_device_max ? KVSLAB_SET_DEVICE : 0);
	if (!args.mask)
		die("nothing to change is given; give --min, --max, --owner, --group, --mode, --low, --high or --device-max");
	rc = pool_control(KVSLAB_CTL_SET, &args, sizeof(args));
	if (rc >= 0) {
		pool_view_free(&v);
		return o->json ? print_pool(o->name, true) : 0;
	}
	if (rc == -EBUSY && v.device_size > o->device_max && o->has_device_max)
		msg("%s has %llu MiB of device memory, more than --device-max %llu MiB; end the clients that brought it", o->name,
		    (unsigned long long)(v.device_size >> 20), (unsigned long long)(o->device_max >> 20));
	else if (rc == -EBUSY)
		msg("%s holds %llu MiB, more than --max %llu MiB; wait until it holds less, or end some of its clients",
		    o->name, (unsigned long long)v.pool.held * POOL_EXTENT_MIB, (unsigned long long)(o->max >> 20));
	else if (rc == -ENOSPC)
		say_no_guarantee(o);
	else if (rc == -EINVAL)
		msg("the module refuses that: it has min %llu MiB and max %llu MiB; min must be within max, max within the "
		    "arena of %llu MiB, --low at most --high", (unsigned long long)v.pool.min * POOL_EXTENT_MIB,
		    (unsigned long long)v.pool.max * POOL_EXTENT_MIB,
		    (unsigned long long)v.pool.arena_extents * POOL_EXTENT_MIB);
	else if (rc == -ENOENT)
		pool_say_unknown(o->name);
	else
		pool_told(rc, "kvslab pool set");
	pool_view_free(&v);
	return 1;
}

static void say_busy(const char *name)
{
	struct pool_view v = { 0 };
	char list[300] = "";
	size_t at = 0;
	uint32_t i;

	if (pool_look(&v, name))
		return;
	for (i = 0; i < v.nr_clients && at < sizeof(list); i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%.16s (%d)", i ? ", " : "", v.clients[i].comm,
				       v.clients[i].pid);
	msg("%s has %u clients: %s; end them, or give --force", name, v.nr_clients, list);
	pool_view_free(&v);
}

static int destroy(struct pool_opts *o)
{
	struct kvslab_args_destroy args = { .flags = o->force ? KVSLAB_DESTROY_FORCE : 0 };
	int rc;

	need_name(o);
	strcpy(args.name, o->name);
	rc = pool_control(KVSLAB_CTL_DESTROY, &args, sizeof(args));
	if (rc >= 0)
		return o->json ? (out_json(json_pack("{s:s, s:b}", "destroyed", o->name, "force", o->force)) ? 1 : 0) : 0;
	if (rc == -EBUSY)
		say_busy(o->name);
	else if (rc == -ENOENT)
		pool_say_unknown(o->name);
	else
		return pool_told(rc, "kvslab pool destroy");
	return 1;
}

/* What only the control node tells: all pools, also those that this user may not open. */
static struct kvslab_stat_pool *list_all(int *n)
{
	struct kvslab_stat_pool *pools = NULL;
	struct kvslab_args_list args;
	uint32_t room = 64;

	for (;; room = (uint32_t)*n + 16) {
		free(pools);
		pools = calloc(room, sizeof(*pools));
		if (!pools) {
			*n = -ENOMEM;
			return NULL;
		}
		args = (struct kvslab_args_list){ .pools = (uintptr_t)pools, .count = room };
		*n = pool_control(KVSLAB_CTL_LIST, &args, sizeof(args));
		if (*n <= (int)room)
			return pools;
	}
}

static int list_one(const struct pool_view *v, bool json, bool head)
{
	if (json)
		return out_json(pool_json(v)) ? 1 : 0;
	pool_print_line(v, head);
	return 0;
}

static int list(struct pool_opts *o)
{
	struct kvslab_stat_pool *pools;
	struct pool_view v = { 0 };
	char **names;
	int n, i, status = 0;

	if (o->name)
		die("list takes no name; kvslab pool stat %s tells of one pool", o->name);
	pools = list_all(&n);
	for (i = 0; i < n; i++) {
		v.pool = pools[i];
		status |= list_one(&v, o->json, i == 0);
	}
	free(pools);
	if (n >= 0)
		return status;
	if (n != -EACCES && n != -EPERM)
		return pool_told(n, "kvslab pool list");
	names = pool_names();
	for (i = 0, n = 0; names && names[i]; i++) {
		memset(&v, 0, sizeof(v));
		if (!pool_look(&v, names[i]))
			status |= list_one(&v, o->json, n++ == 0);
		else
			status = 1;
		pool_view_free(&v);
	}
	pool_names_free(names);
	return status;
}

static int stat_all(bool json)
{
	char **names = pool_names();
	int i, status = 0;

	if (!names)
		return pool_told(-ENOTCONN, "kvslab pool stat");
	for (i = 0; names[i]; i++) {
		if (i && !json)
			out_text("\n");
		status |= print_pool(names[i], json);
	}
	pool_names_free(names);
	return status;
}

static int look(struct pool_opts *o)
{
	return o->name ? print_pool(o->name, o->json) : stat_all(o->json);
}

static int policy(struct pool_opts *o)
{
	if (o->name)
		die("policy takes no name; one policy decides for all pools");
	return pool_policy(o->json);
}

static const struct verb {
	const char *name;
	int (*run)(struct pool_opts *o);
	struct argp argp;
} verbs[] = {
	{ "create", create,
	  { create_options, parse, "NAME --max SIZE", "Make a pool in the kernel, and its node /dev/kvslab/NAME.", NULL,
	    NULL, NULL } },
	{ "list", list, { look_options, parse, "", "All pools, one a line.", NULL, NULL, NULL } },
	{ "stat", look,
	  { look_options, parse, "[NAME]", "What a pool (or each) has, where it is, and who holds it.", NULL, NULL, NULL } },
	{ "set", set,
	  { set_options, parse, "NAME [OPTION...]", "Change a pool's sizes, watermarks, owner or mode.", NULL, NULL,
	    NULL } },
	{ "destroy", destroy,
	  { destroy_options, parse, "NAME", "End a pool: its node goes, and its memory goes back.", NULL, NULL, NULL } },
	{ "policy", policy,
	  { look_options, parse, "", "Which policy gives cached pages their class, and so says which goes first.", NULL, NULL,
	    NULL } },
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static error_t parse_none(int key, char *arg, struct argp_state *state)
{
	(void)state;
	if (key == ARGP_KEY_ARG)
		die("\"%s\" is nothing that can be done with a pool; give create, list, stat, set, destroy or policy", arg);
	if (key == ARGP_KEY_NO_ARGS)
		die("what to do is not given; give create, list, stat, set, destroy or policy, or --help");
	return ARGP_ERR_UNKNOWN;
}

static const struct argp none = {
	NULL, parse_none, "create|list|stat|set|destroy|policy [NAME] [OPTION...]",
	"Pools in the kernel: made, looked at, changed and ended. They stay when their clients end.\v"
	"kvslab pool create NAME --max SIZE [--min SIZE] [--owner USER] [--group GROUP] [--mode MODE] [--numa NODE] "
	"[--cgroup PATH] [--device-max SIZE]\n"
	"kvslab pool list\n"
	"kvslab pool stat [NAME]\n"
	"kvslab pool set NAME [--min SIZE] [--max SIZE] [--owner USER] [--group GROUP] [--mode MODE] [--low PERCENT] "
	"[--high PERCENT] [--device-max SIZE]\n"
	"kvslab pool destroy NAME [--force]\n"
	"kvslab pool policy\n\n"
	"All take --json; `kvslab pool VERB --help' lists a verb's options.", NULL, NULL, NULL
};

int cmd_pool(int argc, char **argv)
{
	struct pool_opts o = { .node = -1 };
	char name[64];
	size_t i;

	for (i = 0; argc > 1 && i < N_VERBS; i++) {
		if (strcmp(argv[1], verbs[i].name))
			continue;
		snprintf(name, sizeof(name), "kvslab pool %s", verbs[i].name);
		argv[1] = name;
		argp_parse(&verbs[i].argp, argc - 1, argv + 1, 0, NULL, &o);
		return verbs[i].run(&o);
	}
	argp_parse(&none, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	return 1;
}
