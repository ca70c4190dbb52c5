// SPDX-License-Identifier: GPL-2.0
/*
 * Events and counters of a pool. The core decides who has an event and names the pools in an op's
 * wakes; here who polls is woken. The counters page is written under the core's innermost lock,
 * whenever the pool holds another number of extents, so there is one writer.
 */
#include <linux/poll.h>
#include <linux/uaccess.h>

#include "kmod.h"
#include "core_hooks.h"

int kvslab_counters_init(struct kvslab_pool *pool)
{
	pool->counters = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!pool->counters)
		return -ENOMEM;
	pool->counters->version = KVSLAB_UAPI_VERSION;
	return 0;
}

void kvslab_counters_exit(struct kvslab_pool *pool)
{
	free_page((unsigned long)pool->counters);
}

void kvslab_hook_held(void *data, u32 held, u32 min, u32 max, u32 low, u32 high, bool pressure,
		      u64 rises)
{
	struct kvslab_pool *pool = data;
	struct kvslab_counters *c;

	/* Of device memory. */
	if (!pool)
		return;
	c = pool->counters;
	WRITE_ONCE(c->seq, c->seq + 1);
	smp_wmb();
	WRITE_ONCE(c->min, min);
	WRITE_ONCE(c->max, max);
	WRITE_ONCE(c->held, held);
	WRITE_ONCE(c->low, low);
	WRITE_ONCE(c->high, high);
	WRITE_ONCE(c->pressure, pressure);
	WRITE_ONCE(c->rises, rises);
	smp_wmb();
	WRITE_ONCE(c->seq, c->seq + 1);
}

/* After a call of the core. A pool that is gone by now has nobody to wake. */
void kvslab_wake(const struct kvc_op *op)
{
	struct kvslab_pool *pool;
	u32 i;

	for (i = 0; i < op->nr_wakes; i++) {
		rcu_read_lock();
		pool = xa_load(&kvslab_pools, KVSLAB_CORE_POOL(op->wake[i]));
		if (pool)
			wake_up_poll(&pool->wait, EPOLLIN | EPOLLRDNORM);
		rcu_read_unlock();
	}
}

__poll_t kvslab_poll(struct file *file, struct poll_table_struct *table)
{
	struct kvslab_client *client = file->private_data;
	struct kvslab_pool *pool = client->pool;

	poll_wait(file, &pool->wait, table);
	if (READ_ONCE(pool->dead))
		return EPOLLIN | EPOLLRDNORM | EPOLLHUP;
	return kvc_events(client->core, false) | kvslab_side_events(client, false) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* EVENTS: a dead pool's client still learns that it is dead, so this works when nothing else does.
 */
long kvslab_cmd_events(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_client *client = file->private_data;
	struct kvslab_args_events *a = args;

	if (a->reserved)
		return -EINVAL;
	/* An event that was told is gone, so first: can the answer be written? */
	if (copy_to_user(user, args, size))
		return -EFAULT;
	a->events = kvc_events(client->core, true) | kvslab_side_events(client, true);
	if (READ_ONCE(client->pool->dead))
		a->events |= KVSLAB_EVENT_DEAD;
	return copy_to_user(user, args, size) ? -EFAULT : 0;
}
