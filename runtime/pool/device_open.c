// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Opening a node by its path, and saying what is wrong when that fails. */
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

#define FOLDER "/dev/kvslab"

/* The pools that there are, as "a, b, c"; how many. */
static int list_pools(char *list, size_t size)
{
	DIR *dir = opendir(FOLDER);
	struct dirent *e;
	size_t at = 0;
	int n = 0;

	list[0] = 0;
	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		if (e->d_name[0] == '.' || !strcmp(e->d_name, "control"))
			continue;
		if (at < size)
			at += (size_t)snprintf(list + at, size - at, "%s%s", n ? ", " : "", e->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

static void say_absent(const struct pool_device *log, const char *path)
{
	char list[300];

	if (access(FOLDER "/control", F_OK))
		device_log(log, KVSLAB_LOG_ERROR,
			   "there is no %s: is the module loaded? insmod kvslab.ko, then kvslab pool "
			   "create NAME --max SIZE (in a container the node must be given to it)",
			   path);
	else if (list_pools(list, sizeof(list)))
		device_log(log, KVSLAB_LOG_ERROR,
			   "there is no %s; the pools are %s, and kvslab pool create makes more", path,
			   list);
	else
		device_log(log, KVSLAB_LOG_ERROR,
			   "there is no %s, and no pool at all; make one with kvslab pool create", path);
}

static void say_forbidden(const struct pool_device *log, const char *path)
{
	char user[64] = "", group[64] = "", buf[1024];
	struct passwd pw, *has_pw = NULL;
	struct group gr, *has_gr = NULL;
	struct stat st;

	if (stat(path, &st)) {
		device_log(log, KVSLAB_LOG_ERROR, "%s: permission denied on the way to it", path);
		return;
	}
	if (!getpwuid_r(st.st_uid, &pw, buf, sizeof(buf), &has_pw) && has_pw)
		snprintf(user, sizeof(user), " (%s)", pw.pw_name);
	if (!getgrgid_r(st.st_gid, &gr, buf, sizeof(buf), &has_gr) && has_gr)
		snprintf(group, sizeof(group), " (%s)", gr.gr_name);
	device_log(log, KVSLAB_LOG_ERROR,
		   "%s: permission denied; it is open to uid %u%s and gid %u%s with mode %04o: run as "
		   "one of them, or let kvslab pool set change that",
		   path, st.st_uid, user, st.st_gid, group, st.st_mode & 0777);
}

static void say_why(const struct pool_device *log, const char *path, int err)
{
	switch (err) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		say_absent(log, path);
		break;
	case -EACCES:
	case -EPERM:
		say_forbidden(log, path);
		break;
	default:
		device_log(log, KVSLAB_LOG_ERROR, "%s cannot be opened: %s", path, strerror(-err));
	}
}

int device_open_path(struct kvslab_pool **pool, const char *path,
		     const struct kvslab_pool_opts *opts)
{
	struct pool_device log = { .log = opts ? opts->log : NULL,
				   .log_data = opts ? opts->log_data : NULL };
	struct pool_wire *wire;
	int rc;

	if (opts && (opts->arena || opts->min || opts->max || opts->low || opts->high)) {
		device_log(&log, KVSLAB_LOG_ERROR,
			   "%s: sizes and watermarks are those that the pool was made with; kvslab pool "
			   "set changes them",
			   path);
		return -EINVAL;
	}
	rc = wire_open_node(&wire, path);
	if (rc == -ENXIO || rc == -ENODEV)
		rc = -ENOENT; /* a node that is left over, with nothing behind it */
	if (rc) {
		say_why(&log, path, rc);
		return rc;
	}
	rc = device_open_wire(pool, wire, opts);
	if (rc == -EINVAL || rc == -EOPNOTSUPP)
		rc = -ENOTTY; /* some other device, which does not know the command */
	if (rc == -ENOTTY)
		device_log(&log, KVSLAB_LOG_ERROR, "%s is no pool; pools are the nodes in " FOLDER
			   " but control", path);
	else if (rc == -ENODEV)
		device_log(&log, KVSLAB_LOG_ERROR, "%s: the pool was destroyed just now", path);
	return rc;
}
