// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs, for tests and for whoever doubts: kvslab/check runs the core's debug walk over the
 * arena, with every lock held, and says "ok" or the rule that is broken.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "kmod.h"

static struct dentry *dir;

static int check_show(struct seq_file *m, void *unused)
{
	char why[200] = "";

	if (kvc_check(kvslab_arena, why, sizeof(why)) || kvslab_devices_check(why, sizeof(why)))
		seq_printf(m, "broken: %s\n", why);
	else
		seq_puts(m, "ok\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(check);

/* Without debugfs there is nothing to see; nothing else depends on it. */
void kvslab_debug_init(void)
{
	dir = debugfs_create_dir("kvslab", NULL);
	debugfs_create_file("check", 0400, dir, NULL, &check_fops);
}

void kvslab_debug_exit(void)
{
	debugfs_remove(dir);
}
