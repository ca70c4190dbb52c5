// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Talking to the module, and saying what is wrong when it does not answer. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "msg.h"
#include "pool.h"

#define POOL_PATH_MAX (sizeof(POOL_FOLDER) + KVSLAB_NAME_SIZE + 1)

static int command(int fd, unsigned int cmd, void *args, uint32_t size)
{
	struct kvslab_cmd c = { .args = (uintptr_t)args, .size = size };
	int rc = ioctl(fd, cmd, &c);

	return rc < 0 ? -errno : rc;
}

int pool_control(unsigned int cmd, void *args, uint32_t size)
{
	int fd = open(POOL_CONTROL, O_RDWR | O_CLOEXEC), rc;

	/* Of the node itself, so that a command's own ENOENT is not taken for it. */
	if (fd < 0)
		return errno == ENOENT || errno == ENXIO || errno == ENODEV ? -ENOTCONN : -errno;
	rc = command(fd, cmd, args, size);
	close(fd);
	return rc;
}

int pool_told(int err, const char *what)
{
	switch (err) {
	case -ENOTCONN:
		msg("there is no " POOL_CONTROL ": is the module loaded? insmod kvslab.ko");
		break;
	case -EACCES:
	case -EPERM:
		msg("%s needs the right to " POOL_CONTROL " and CAP_SYS_ADMIN; run it as root", what);
		break;
	case -E2BIG:
		msg("the module is older than this command; install both of the same release");
		break;
	default:
		msg("%s: %s", what, strerror(-err));
	}
	return 1;
}

void pool_check_name(const char *name)
{
	size_t n = strlen(name), i;

	if (!n || n >= KVSLAB_NAME_SIZE)
		die("a pool's name has 1 to %u characters; \"%s\" has %zu", KVSLAB_NAME_SIZE - 1, name, n);
	if (name[0] == '.' || !strcmp(name, "control"))
		die("\"%s\" cannot be a pool's name; take another", name);
	for (i = 0; i < n; i++)
		if (!isascii((unsigned char)name[i]) || (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i])))
			die("\"%s\" cannot be a pool's name; letters, digits, '-', '_' and '.' can be in it", name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void pool_names_free(char **names)
{
	size_t i;

	for (i = 0; names && names[i]; i++)
		free(names[i]);
	free(names);
}

char **pool_names(void)
{
	DIR *dir = opendir(POOL_FOLDER);
	char **names = dir ? calloc(1, sizeof(*names)) : NULL, **more;
	struct dirent *e;
	size_t n = 0;

	while (names && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || !strcmp(e->d_name, "control"))
			continue;
		more = realloc(names, (n + 2) * sizeof(*names));
		if (!more) {
			pool_names_free(names);
			names = NULL;
			break;
		}
		names = more;
		names[n] = strdup(e->d_name);
		names[n + 1] = NULL;
		n += names[n] != NULL;
	}
	if (dir)
		closedir(dir);
	if (names)
		qsort(names, n, sizeof(*names), by_name);
	return names;
}

void pool_say_unknown(const char *name)
{
	char **names = pool_names(), list[400] = "";
	size_t i, at = 0;

	if (access(POOL_CONTROL, F_OK) && !names) {
		pool_told(-ENOTCONN, "");
		return;
	}
	for (i = 0; names && names[i] && at < sizeof(list); i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", names[i]);
	if (i)
		msg("there is no pool \"%s\"; there are %s", name, list);
	else
		msg("there is no pool \"%s\", and no other; make one with kvslab pool create %s --max SIZE", name, name);
	pool_names_free(names);
}

/* Looking at a pool makes a client of it for that long. */
static void leave_out_self(struct pool_view *v)
{
	uint32_t i, n = 0;

	for (i = 0; i < v->nr_clients; i++)
		if (v->clients[i].pid != getpid())
			v->clients[n++] = v->clients[i];
	if (n < v->nr_clients && v->pool.clients)
		v->pool.clients--;
	v->nr_clients = n;
}

#define ARENAS_MAX 64 /* a handle names no more */

static int look(struct pool_view *v, int fd)
{
	struct kvslab_args_stat args;
	uint32_t caches = 16, clients = 32;
	int rc;

	for (;;) {
		v->caches = calloc(caches, sizeof(*v->caches));
		v->clients = calloc(clients, sizeof(*v->clients));
		v->arenas = calloc(ARENAS_MAX, sizeof(*v->arenas));
		if (!v->caches || !v->clients || !v->arenas)
			return -ENOMEM;
		args = (struct kvslab_args_stat){
			.caches = (uintptr_t)v->caches,
			.clients = (uintptr_t)v->clients,
			.nr_caches = caches,
			.nr_clients = clients,
			.arenas = (uintptr_t)v->arenas,
			.nr_arenas = ARENAS_MAX,
		};
		rc = command(fd, KVSLAB_CMD_STAT, &args, sizeof(args));
		if (rc)
			return rc;
		if (args.nr_caches <= caches && args.nr_clients <= clients)
			break;
		caches = args.nr_caches + 8;
		clients = args.nr_clients + 64;
		pool_view_free(v);
	}
	v->pool = args.pool;
	v->nr_caches = args.nr_caches;
	v->nr_clients = args.nr_clients;
	v->nr_arenas = args.nr_arenas;
	v->device_max = args.device_max;
	v->device_size = args.device_size;
	v->details = true;
	leave_out_self(v);
	return 0;
}

/* Slab by slab, while others go on: the sum may differ from what STAT said a moment before. */
static int look_at_slabs(struct pool_view *v, int fd)
{
	struct kvslab_args_slabs args = { .count = KVSLAB_CMD_BATCH };
	struct kvslab_stat_slab *more;
	int n;

	do {
		more = realloc(v->slabs, (v->nr_slabs + KVSLAB_CMD_BATCH) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		v->slabs = more;
		args.slabs = (uintptr_t)(more + v->nr_slabs);
		n = command(fd, KVSLAB_CMD_SLABS, &args, sizeof(args));
		if (n < 0)
			return n;
		v->nr_slabs += (uint32_t)n;
	} while (args.from);
	return 0;
}

static void path_of(char path[POOL_PATH_MAX], const char *name)
{
	snprintf(path, POOL_PATH_MAX, "%s/%s", POOL_FOLDER, name);
}

int pool_read(struct pool_view *v, const char *name, bool slabs)
{
	char path[POOL_PATH_MAX];
	int fd, rc;

	path_of(path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = look(v, fd);
	if (!rc && slabs)
		rc = look_at_slabs(v, fd);
	close(fd);
	return rc;
}

int pool_look(struct pool_view *v, const char *name)
{
	char path[POOL_PATH_MAX];
	int rc = pool_read(v, name, false);

	path_of(path, name);
	if (rc == -ENOENT || rc == -ENXIO || rc == -ENODEV)
		pool_say_unknown(name);
	else if (rc == -EACCES || rc == -EPERM)
		msg("%s: permission denied; ask its owner, or run this as root", path);
	else if (rc == -ENOTTY)
		msg("%s is no pool", path);
	else if (rc)
		msg("%s: %s", path, strerror(-rc));
	return rc;
}

void pool_view_free(struct pool_view *v)
{
	free(v->caches);
	free(v->clients);
	free(v->arenas);
	free(v->slabs);
	memset(v, 0, sizeof(*v));
}

uint64_t pool_arena_extents(void)
{
	struct pool_view v = { 0 };
	unsigned int extents = 0;
	char **names = pool_names();
	uint64_t n = 0;
	FILE *f;
	size_t i;

	for (i = 0; names && names[i] && !n; i++) {
		if (!pool_read(&v, names[i], false))
			n = v.pool.arena_extents;
		pool_view_free(&v);
	}
	pool_names_free(names);
	f = n ? NULL : fopen("/sys/module/kvslab/parameters/extents", "re");
	if (f) {
		if (fscanf(f, "%u", &extents) == 1)
			n = extents;
		fclose(f);
	}
	/* The module's own choice is three quarters of the memory. */
	if (!n)
		n = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / KVSLAB_CMD_EXTENT;
	return n;
}
