// SPDX-License-Identifier: GPL-2.0
/*
 * Nodes. One that outlives its pool does not open a later one; a pool keeps its number when its
 * owner and mode change; these are what the node shows.
 */
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "ks.h"

#define COPY "/tmp/copy-of-a-node"

static int set(const char *name, u32 mask, u32 uid, u32 gid, u32 mode)
{
	struct kvslab_args_set a = { .mask = mask, .uid = uid, .gid = gid, .mode = mode };

	snprintf(a.name, sizeof(a.name), "%s", name);
	return ks_cmd(ks_control(), KVSLAB_CTL_SET, &a, sizeof(a));
}

int main(void)
{
	struct stat first, st;
	struct ks_client c;
	char name[16];
	int i, fd, bad = 0;

	must(!ks_pool("first", 0, 4 << 20, 0600), "a pool");
	must(!stat("/dev/kvslab/first", &first), "its node");
	unlink(COPY);
	must(!mknod(COPY, S_IFCHR | 0666, first.st_rdev), "a second node of it, as a container has one");
	ok(!ks_client(&c, COPY, 4096), "opens it");
	ok(!set("first", KVSLAB_SET_OWNER | KVSLAB_SET_MODE, 1001, 1002, 0640), "its owner and mode change");
	ok(!stat("/dev/kvslab/first", &st) && st.st_rdev == first.st_rdev, "it keeps its number");
	ok(st.st_uid == 1001 && st.st_gid == 1002 && (st.st_mode & 07777) == 0640,
	   "the node shows them: %u:%u %o", st.st_uid, st.st_gid, st.st_mode & 07777);
	fd = ks_open(COPY, O_RDWR);
	ok(fd >= 0, "the second node still opens it");
	close(fd);
	ok(set("first", KVSLAB_SET_MODE, 0, 0, 01777) == -EINVAL, "no mode beyond 0666");
	ks_close(&c);
	ok(!ks_destroy("first", 0), "it is destroyed");
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "later%d", i);
		bad += ks_pool(name, 0, 2 << 20, 0600) != 0;
		fd = ks_open(COPY, O_RDWR);
		if (fd >= 0)
			close(fd);
		bad += fd != -ENODEV && fd != -ENXIO;
	}
	ok(!bad, "the second node opens none of the pools that come after");
	unlink(COPY);
	return done();
}
