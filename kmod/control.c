// SPDX-License-Identifier: GPL-2.0
/* /dev/kvslab/control: pools are made, changed, listed and destroyed. */
#include <linux/capability.h>
#include <linux/miscdevice.h>
#include <linux/uaccess.h>

#include "kmod.h"

static long ctl_create(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_args_create *a = args;
	struct kvslab_pool *pool;
	u32 id;
	int r;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (nowait)
		return -EAGAIN;
	if (copy_to_user(user, args, size))
		return -EFAULT;
	r = kvslab_pool_create(a, &pool);
	if (r)
		return r;
	/* It has a name, so it may be gone by now. */
	mutex_lock(&kvslab_mutex);
	id = 0;
	list_for_each_entry(pool, &kvslab_pool_list, node) {
		if (!strcmp(pool->name, a->name))
			id = pool->id;
	}
	mutex_unlock(&kvslab_mutex);
	if (!id)
		return 0;
	a->id = id;
	a->major = kvslab_node_major();
	a->minor = id;
	return copy_to_user(user, args, size) ? -EFAULT : 0;
}

static long ctl_set(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return nowait ? -EAGAIN : kvslab_pool_set(args);
}

static long ctl_list(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_args_list *a = args;
	struct kvslab_stat_pool *out;
	struct kvslab_pool *pool;
	u32 n = 0, fit;
	long r;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (a->flags)
		return -EINVAL;
	if (nowait)
		return -EAGAIN;
	fit = a->pools ? min_t(u32, a->count, 4096) : 0;
	out = kvmalloc_array(fit ?: 1, sizeof(*out), GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	mutex_lock(&kvslab_mutex);
	list_for_each_entry(pool, &kvslab_pool_list, node) {
		if (n < fit)
			kvslab_pool_stat(pool, &out[n]);
		n++;
	}
	mutex_unlock(&kvslab_mutex);
	r = kvslab_copy_out(a->pools, out, min(n, fit) * sizeof(*out)) ?: (long)n;
	kvfree(out);
	return r;
}

static long ctl_destroy(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	const struct kvslab_args_destroy *a = args;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (a->flags & ~KVSLAB_DESTROY_FORCE || a->reserved ||
	    strnlen(a->name, sizeof(a->name)) == sizeof(a->name))
		return -EINVAL;
	return nowait ? -EAGAIN : kvslab_pool_destroy(a->name, a->flags);
}

#define COMMAND(number, type, function) \
	{ number, sizeof(struct type), sizeof(struct type), true, function }
/* One whose structure has grown: @last is the last member that it had at first. */
#define GROWN(number, type, last, function) \
	{ number, offsetofend(struct type, last), sizeof(struct type), true, function }

static const struct kvslab_command commands[] = {
	GROWN(KVSLAB_CTL_CREATE, kvslab_args_create, reserved, ctl_create),
	GROWN(KVSLAB_CTL_SET, kvslab_args_set, reserved, ctl_set),
	COMMAND(KVSLAB_CTL_LIST, kvslab_args_list, ctl_list),
	COMMAND(KVSLAB_CTL_DESTROY, kvslab_args_destroy, ctl_destroy),
};

static long control_ioctl(struct file *file, unsigned int op, unsigned long arg)
{
	return kvslab_ioctl(file, commands, ARRAY_SIZE(commands), op, arg);
}

static int control_uring(struct io_uring_cmd *cmd, unsigned int flags)
{
	return kvslab_uring(cmd, flags, commands, ARRAY_SIZE(commands));
}

static const struct file_operations control_fops = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.unlocked_ioctl = control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.uring_cmd = control_uring,
};

static struct miscdevice control = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kvslab",
	.nodename = "kvslab/control",
	.mode = 0600,
	.fops = &control_fops,
};

int kvslab_control_init(void)
{
	return misc_register(&control);
}

void kvslab_control_exit(void)
{
	misc_deregister(&control);
}
