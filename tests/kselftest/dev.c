// SPDX-License-Identifier: GPL-2.0
#include <sys/syscall.h>

#include "dev.h"

static int exporter = -1;

int dev_exporter(void)
{
	int fd;

	if (access("/sys/module/exporter", F_OK)) {
		fd = open("exporter.ko", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (syscall(SYS_finit_module, fd, "", 0)) {
			fd = -errno;
			return fd;
		}
		close(fd);
	}
	exporter = open("/dev/kvslab_exporter", O_RDWR | O_CLOEXEC);
	return exporter < 0 ? -errno : 0;
}

int dev_exporter_gone(void)
{
	if (exporter >= 0)
		close(exporter);
	exporter = -1;
	return syscall(SYS_delete_module, "exporter", O_NONBLOCK) ? -errno : 0;
}

int dev_buf(u64 size, int keep)
{
	struct exporter_new a = { .size = size, .keep = keep };
	int fd = ioctl(exporter, EXPORTER_NEW, &a);

	return fd < 0 ? -errno : fd;
}

struct exporter_count dev_count(void)
{
	struct exporter_count c = { ~0u, ~0u };

	ioctl(exporter, EXPORTER_COUNT, &c);
	return c;
}

int dev_revoke(void)
{
	return ioctl(exporter, EXPORTER_REVOKE) ? -errno : 0;
}

int dev_pool(const char *name, u64 max, u64 device_max)
{
	int r = ks_pool(name, 0, max, 0600);

	return r ? r : dev_set_max(name, device_max);
}

int dev_set_max(const char *name, u64 device_max)
{
	struct kvslab_args_set a = { .mask = KVSLAB_SET_DEVICE, .device_max = device_max };

	snprintf(a.name, sizeof(a.name), "%s", name);
	return ks_cmd(ks_control(), KVSLAB_CTL_SET, &a, sizeof(a));
}

long dev_import(int fd, int buf, const char *note)
{
	struct kvslab_args_import a = { .fd = buf, .tier = KVSLAB_TIER_DEVICE };
	long r;

	strncpy((char *)a.note, note, sizeof(a.note) - 1);
	r = ks_cmd(fd, KVSLAB_CMD_IMPORT, &a, sizeof(a));
	return r ? r : a.arena;
}

long dev_cache(int fd, u32 arena, u32 page_size, struct kvslab_args_cache *c)
{
	*c = (struct kvslab_args_cache){ .page_size = page_size, .tier = KVSLAB_TIER_DEVICE, .arena = arena };
	return ks_cmd(fd, KVSLAB_CMD_CACHE, c, sizeof(*c));
}

long dev_deposit(int fd, u32 arena, int file)
{
	struct kvslab_args_deposit a = { .arena = arena, .fd = file };

	return ks_cmd(fd, KVSLAB_CMD_DEPOSIT, &a, sizeof(a));
}

long dev_receive(int fd, u32 arena)
{
	struct kvslab_args_receive a = { .arena = arena, .flags = KVSLAB_RECEIVE_CLOEXEC };

	return ks_cmd(fd, KVSLAB_CMD_RECEIVE, &a, sizeof(a));
}

int dev_arenas(int fd, struct kvslab_stat_arena *out, u32 n)
{
	struct kvslab_args_stat a = { .arenas = (uintptr_t)out, .nr_arenas = n };
	long r = ks_cmd(fd, KVSLAB_CMD_STAT, &a, sizeof(a));

	return r < 0 ? r : (int)a.nr_arenas;
}

bool dev_arena(int fd, u32 arena, struct kvslab_stat_arena *out)
{
	struct kvslab_stat_arena all[64];
	int n = dev_arenas(fd, all, COUNT(all)), i;

	for (i = 0; i < n; i++) {
		if (all[i].arena != arena)
			continue;
		*out = all[i];
		return true;
	}
	return false;
}

const char *dev_walk(void)
{
	static char text[256];
	int r = ks_read_file("/sys/kernel/debug/kvslab/check", text, sizeof(text));

	if (r < 0)
		return "cannot be read";
	text[strcspn(text, "\n")] = 0;
	return text;
}
