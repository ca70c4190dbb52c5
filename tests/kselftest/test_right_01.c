// SPDX-License-Identifier: GPL-2.0
/* Who may open what: uid, gid and mode of a pool's node, and what the control node asks for. */
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "ks.h"

#define ALICE 1001
#define BOB 1002

struct as {
	uid_t uid;
	gid_t gid;
	const char *node;
	int flags;
};

/* Whether somebody can open a node: 0 or the errno. */
static int opens(void *arg)
{
	struct as *a = arg;
	int fd;

	if (setgroups(0, NULL) || setgid(a->gid) || setuid(a->uid))
		return 100;
	fd = ks_open(a->node, a->flags);
	return fd < 0 ? -fd : 0;
}

static int as(uid_t uid, gid_t gid, const char *node, int flags)
{
	struct as a = { uid, gid, node, flags };

	return ks_wait(ks_child(opens, &a));
}

/* With the right to open the control node, but without CAP_SYS_ADMIN. */
static int without_admin(void *arg)
{
	struct kvslab_args_create a = { .max = 4 << 20, .mode = 0600, .node = -1, .name = "never" };
	struct kvslab_args_destroy d = { .name = "owned", .flags = KVSLAB_DESTROY_FORCE };
	int fd = open("/dev/kvslab/control", O_RDWR | O_CLOEXEC);

	(void)arg;
	if (fd < 0 || setgroups(0, NULL) || setgid(ALICE) || setuid(ALICE))
		return 1;
	if (ks_cmd(fd, KVSLAB_CTL_CREATE, &a, sizeof(a)) != -EPERM)
		return 2;
	if (ks_cmd(fd, KVSLAB_CTL_DESTROY, &d, sizeof(d)) != -EPERM)
		return 3;
	ks_via = KS_RING;
	if (ks_cmd(fd, KVSLAB_CTL_DESTROY, &d, sizeof(d)) != -EPERM)
		return 4;
	return 0;
}

static bool node_is(uid_t uid, gid_t gid, mode_t mode)
{
	struct stat st;

	if (stat("/dev/kvslab/owned", &st))
		return false;
	note("uid %u gid %u mode %o", st.st_uid, st.st_gid, st.st_mode & 07777);
	return st.st_uid == uid && st.st_gid == gid && (st.st_mode & 07777) == mode;
}

int main(void)
{
	struct kvslab_args_create a = { .max = 8 << 20, .mode = 0640, .node = -1, .uid = ALICE, .gid = BOB, .name = "owned" };
	struct kvslab_args_set s = { .name = "owned" };
	struct kvslab_stat_pool stat;
	int fd;

	must(!ks_cmd(ks_control(), KVSLAB_CTL_CREATE, &a, sizeof(a)), "a pool of alice's, group bob, 0640");
	ok(node_is(ALICE, BOB, 0640), "its node has them");
	ok(as(ALICE, ALICE, "owned", O_RDWR) == 0, "alice opens it");
	ok(as(5000, BOB, "owned", O_RDONLY) == 0, "the group reads it");
	ok(as(5000, BOB, "owned", O_RDWR) == EACCES, "and does not write it");
	ok(as(BOB, 5000, "owned", O_RDONLY) == EACCES, "others do not open it");
	ok(as(ALICE, ALICE, "control", O_RDWR) == EACCES && as(ALICE, ALICE, "control", O_RDONLY) == EACCES,
	   "the control node is root's alone");
	ok(ks_wait(ks_child(without_admin, NULL)) == 0, "whoever got its descriptor needs CAP_SYS_ADMIN too");

	s.mask = KVSLAB_SET_OWNER | KVSLAB_SET_MODE;
	s.uid = BOB;
	s.gid = ALICE;
	s.mode = 0600;
	ok(!ks_cmd(ks_control(), KVSLAB_CTL_SET, &s, sizeof(s)) && node_is(BOB, ALICE, 0600), "SET changes owner and mode");
	ok(as(ALICE, ALICE, "owned", O_RDWR) == EACCES && as(BOB, BOB, "owned", O_RDWR) == 0, "which counts at once");

	/* Sizes. */
	fd = ks_open("owned", O_RDWR);
	must(fd >= 0, "opened");
	s = (struct kvslab_args_set){ .name = "owned", .mask = KVSLAB_SET_MAX | KVSLAB_SET_MIN, .max = 16 << 20, .min = (2 << 20) + 1 };
	ok(!ks_cmd(ks_control(), KVSLAB_CTL_SET, &s, sizeof(s)) && !ks_stat(fd, &stat) && stat.max == 8 && stat.min == 2,
	   "SET of sizes: max down, min up to extents: %llu, %llu", (unsigned long long)stat.max, (unsigned long long)stat.min);
	s = (struct kvslab_args_set){ .name = "owned", .mask = KVSLAB_SET_MAX, .max = 2 << 20 };
	ok(ks_cmd(ks_control(), KVSLAB_CTL_SET, &s, sizeof(s)) == -EINVAL, "a max below min: EINVAL");
	s = (struct kvslab_args_set){ .name = "nobody", .mask = KVSLAB_SET_MAX, .max = 2 << 20 };
	ok(ks_cmd(ks_control(), KVSLAB_CTL_SET, &s, sizeof(s)) == -ENOENT, "a pool that is not there: ENOENT");
	s = (struct kvslab_args_set){ .name = "owned", .mask = 1u << 9 };
	ok(ks_cmd(ks_control(), KVSLAB_CTL_SET, &s, sizeof(s)) == -EINVAL, "an unknown bit in mask: EINVAL");
	close(fd);
	ok(!ks_destroy("owned", 0), "DESTROY");
	return done();
}
