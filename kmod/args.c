// SPDX-License-Identifier: GPL-2.0
/*
 * Commands' arguments: the payload of 16 bytes, the same as an ioctl's argument and in an SQE; the
 * structure that it points to, which may be older or newer than ours; arrays.
 */
#include <linux/compat.h>
#include <linux/mmap_lock.h>
#include <linux/percpu.h>
#include <linux/uaccess.h>

#include "kmod.h"
#include "trace.h"

/*
 * Where arguments were found to be good, by CPU: most callers use a few places again and again. Valid
 * until any window comes anywhere (map.c). The mm is compared and not touched; when it is another's
 * by now, that one's windows came later.
 */
struct place {
	const struct mm_struct *mm;
	unsigned long from, to;
	int windows;
};

struct places {
	struct place place[4];
	u32 next;
};

static DEFINE_PER_CPU(struct places, known);

static bool is_known(const struct mm_struct *mm, unsigned long address, size_t n)
{
	const struct places *k = get_cpu_ptr(&known);
	int windows = atomic_read(&kvslab_windows);
	const struct place *p;
	bool found = false;

	for (p = k->place; p < k->place + ARRAY_SIZE(k->place) && !found; p++)
		found = p->mm == mm && p->windows == windows && p->from <= address &&
			address < p->to && n <= p->to - address;
	put_cpu_ptr(&known);
	return found;
}

static void make_known(const struct place *place)
{
	struct places *k = get_cpu_ptr(&known);

	k->place[k->next++ % ARRAY_SIZE(k->place)] = *place;
	put_cpu_ptr(&known);
}

/*
 * Nothing of a command lies in a window: what it does there would depend on what it does.
 * A mapping that comes later does no harm, since nothing is held while user memory is copied.
 */
bool kvslab_args_ok(u64 address, size_t n)
{
	struct place place;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	bool good = true;

	if (!n || address != (unsigned long)address || !mm ||
	    !access_ok((void __user *)(unsigned long)address, n))
		return !n;
	if (is_known(mm, address, n))
		return true;
	place.mm = NULL;
	mmap_read_lock(mm);
	place.windows = atomic_read(&kvslab_windows);
	for (vma = find_vma(mm, address); vma && vma->vm_start < address + n;
	     vma = find_vma(mm, vma->vm_end)) {
		if (vma->vm_ops != &kvslab_vm_ops && vma->vm_ops != &kvslab_counters_vm_ops) {
			if (vma->vm_start <= address && address + n <= vma->vm_end) {
				place.mm = mm;
				place.from = vma->vm_start;
				place.to = vma->vm_end;
			}
			continue;
		}
		good = false;
		break;
	}
	mmap_read_unlock(mm);
	if (good && place.mm)
		make_known(&place);
	return good;
}

int kvslab_copy_in(void *to, u64 from, size_t n)
{
	if (!kvslab_args_ok(from, n) || copy_from_user(to, u64_to_user_ptr(from), n))
		return -EFAULT;
	return 0;
}

int kvslab_copy_out(u64 to, const void *from, size_t n)
{
	if (!kvslab_args_ok(to, n) || copy_to_user(u64_to_user_ptr(to), from, n))
		return -EFAULT;
	return 0;
}

static const struct kvslab_command *find(const struct kvslab_command *commands, u32 n, u32 op)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (commands[i].op == op)
			return &commands[i];
	return NULL;
}

/* How a command came, as the tracepoints say it. */
enum how { BY_IOCTL, BY_RING, BY_WORKER };

/* Pool and client as the tracepoints say them; none for the control node. */
static u32 pool_of(const struct file *file)
{
	const struct kvslab_client *client = file->private_data;

	return file->f_op == &kvslab_pool_fops ? client->pool->id : 0;
}

static u32 client_of(const struct file *file)
{
	const struct kvslab_client *client = file->private_data;

	return file->f_op == &kvslab_pool_fops ? kvc_client_id(client->core) : 0;
}

static void begins(const struct file *file, const struct kvslab_command *c, enum how how)
{
	if (trace_kvslab_command_begin_enabled())
		trace_kvslab_command_begin(pool_of(file), client_of(file), _IOC_NR(c->op), how);
}

static void ends(const struct file *file, const struct kvslab_command *c, enum how how, long result)
{
	if (trace_kvslab_command_end_enabled())
		trace_kvslab_command_end(pool_of(file), client_of(file), _IOC_NR(c->op), how, result);
}

static long perform(struct file *file, const struct kvslab_command *c, const struct kvslab_cmd *cmd,
		    bool nowait)
{
	/* Only as much of it is used as is filled below. */
	u64 args[KVSLAB_SIZE_MAX / 8] KVSLAB_UNINITIALIZED;
	int r;

	if (cmd->flags || cmd->size < c->first)
		return -EINVAL;
	if (cmd->size > PAGE_SIZE)
		return -E2BIG;
	if (c->write && (file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		return -EPERM;
	if (!c->size && cmd->size)
		return -EINVAL;
	if (!c->size)
		return c->run(file, NULL, NULL, 0, nowait);
	if (!kvslab_args_ok(cmd->args, cmd->size))
		return -EFAULT;
	r = copy_struct_from_user(args, c->size, u64_to_user_ptr(cmd->args), cmd->size);
	if (r)
		return r;
	return c->run(file, args, u64_to_user_ptr(cmd->args), min(cmd->size, c->size), nowait);
}

long kvslab_ioctl(struct file *file, const struct kvslab_command *commands, u32 n, u32 op,
		  unsigned long arg)
{
	const struct kvslab_command *c = find(commands, n, op);
	struct kvslab_cmd cmd;
	long r;

	if (!c)
		return -ENOTTY;
	begins(file, c, BY_IOCTL);
	r = kvslab_copy_in(&cmd, arg, sizeof(cmd));
	if (!r)
		r = perform(file, c, &cmd, false);
	ends(file, c, BY_IOCTL, r);
	return r;
}

/* The SQE is shared with user space: each field is read once. */
int kvslab_uring(struct io_uring_cmd *uring, unsigned int flags,
		 const struct kvslab_command *commands, u32 n)
{
	const struct kvslab_command *c = find(commands, n, READ_ONCE(uring->cmd_op));
	const struct kvslab_cmd *sqe = kvslab_sqe_cmd(uring);
	struct kvslab_cmd cmd = {
		.args = READ_ONCE(sqe->args),
		.size = READ_ONCE(sqe->size),
		.flags = READ_ONCE(sqe->flags),
	};
	bool nowait = flags & IO_URING_F_NONBLOCK;
	enum how how = nowait ? BY_RING : BY_WORKER;
	long r;

	if (!c)
		return -ENOTTY;
	begins(uring->file, c, how);
	r = perform(uring->file, c, &cmd, nowait);
	ends(uring->file, c, how, r);
	/* From a worker, 6.1 forgets to complete what returns a count. */
	if (r <= 0)
		return r;
	kvslab_uring_done(uring, r, flags);
	return -EIOCBQUEUED;
}
