// SPDX-License-Identifier: GPL-2.0
/* The module is there, and one page goes through its whole life. */
#include <sys/stat.h>

#include "ks.h"

int main(void)
{
	struct kvslab_stat_pool s;
	struct ks_client k;
	struct stat st;
	u8 hash[1][HASH];
	u64 page = 0, found = 0;
	int via;

	must(ks_control() >= 0, "/dev/kvslab/control opens");
	ok(!stat("/dev/kvslab/control", &st) && (st.st_mode & 0777) == 0600 && S_ISCHR(st.st_mode),
	   "it is root's alone");
	for (via = KS_IOCTL; via <= KS_RING; via++) {
		const char *how = ks_via_name[via];
		long r;

		ks_via = via;
		ok(ks_cmd(ks_control(), KVSLAB_CMD_NOP, NULL, 0) == -ENOTTY,
		   "%s: a pool's command on the control node", how);
		r = ks_pool("smoke", 0, 16 << 20, 0600);
		must(!r, "%s: CREATE: %ld", how, r);
		r = ks_client(&k, "smoke", 64 << 10);
		must(!r, "%s: a client with both windows: %ld", how, r);
		ok(k.c.pages_per_slab == 32 && k.c.frame_size == FRAME && k.c.arena_size >= 16 << 20 &&
			   k.c.arena_size % EXTENT == 0,
		   "%s: 32 pages of 64 KiB in an extent; an arena of %llu MiB", how,
		   (unsigned long long)k.c.arena_size >> 20);
		ok(ks_cmd(k.fd, KVSLAB_CMD_NOP, NULL, 0) == 0, "%s: NOP", how);
		ok(ks_alloc(k.fd, k.c.id, &page, 1, 0) == 1 && page, "%s: ALLOC", how);
		ok(!ks_stat(k.fd, &s) && s.private_pages == 1 && s.held == 1 && s.clients == 1,
		   "%s: STAT shows it", how);
		ks_fill(ks_at(&k, k.w, page), k.c.page_size, 7);
		ok(ks_filled(ks_at(&k, k.r, page), k.c.page_size, 7), "%s: the same bytes in both windows",
		   how);
		ok(ks_seal_one(k.fd, &page, 1, 2) >= 0, "%s: SEAL", how);
		ok(ks_write(ks_at(&k, k.w, page), 1) == SIGBUS, "%s: a write to it is SIGBUS now", how);
		ok(ks_filled(ks_at(&k, k.r, page), k.c.page_size, 7), "%s: it can still be read", how);
		ks_hash(hash[0], 1, 2);
		ok(ks_lookup(k.fd, k.c.id, hash, &found, 1) == 1 && found == page, "%s: LOOKUP", how);
		ok(ks_get(k.fd, &page, 1) >= 0, "%s: GET", how);
		ok(ks_free(k.fd, &page, 1) >= 0 && ks_free(k.fd, &page, 1) >= 0 && ks_free(k.fd, &page, 1) >= 0,
		   "%s: FREE of all three references", how);
		ok(ks_free(k.fd, &page, 1) < 0, "%s: FREE of a fourth is refused", how);
		ok(!ks_stat(k.fd, &s) && s.cached == 1 && s.sealed == 0 && s.private_pages == 0,
		   "%s: it is cached", how);
		ok(ks_adds_up(k.fd), "%s: counts add up", how);
		ok(ks_destroy("smoke", 0) == -EBUSY, "%s: a pool in use is not destroyed", how);
		ks_close(&k);
		ok(ks_destroy("smoke", 0) == 0, "%s: DESTROY", how);
		ok(ks_open("smoke", O_RDWR) == -ENOENT, "%s: its node is gone", how);
	}
	ks_via = KS_IOCTL;
	return done();
}
