// SPDX-License-Identifier: GPL-2.0
/*
 * Which processes have windows on a pool, and whether one of them is just unmapping something.
 *
 * Who unmaps takes a frame out of its page tables first and drops its reference after it has
 * flushed, with many others in one go: until then the frame looks pinned, for as long as a scheduler
 * lets that process wait. Nobody else can hurry it. But its mm says that a flush is pending, and says
 * so until the references are gone; and vm_ops->close comes after that, so that an mm is in the list
 * all the while.
 */
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/sched/mm.h>

#include "kmod.h"

struct kvslab_user {
	struct list_head node; /* in its pool */
	struct mm_struct *mm; /* kept as a structure, not as a process */
	u32 windows;
};

int kvslab_window_add(struct kvslab_pool *pool, struct vm_area_struct *vma)
{
	struct kvslab_user *new = kmalloc(sizeof(*new), GFP_KERNEL_ACCOUNT), *user;

	if (!new)
		return -ENOMEM;
	spin_lock(&pool->users_lock);
	list_for_each_entry(user, &pool->users, node)
		if (user->mm == vma->vm_mm)
			goto found;
	user = new;
	new = NULL;
	user->mm = vma->vm_mm;
	user->windows = 0;
	mmgrab(user->mm);
	list_add(&user->node, &pool->users);
found:
	user->windows++;
	spin_unlock(&pool->users_lock);
	vma->vm_private_data = user;
	kfree(new);
	return 0;
}

/* One more of the same process: a part of a window that was split, or one that moved. */
void kvslab_window_copied(struct kvslab_pool *pool, struct vm_area_struct *vma)
{
	struct kvslab_user *user = vma->vm_private_data;

	spin_lock(&pool->users_lock);
	user->windows++;
	spin_unlock(&pool->users_lock);
}

void kvslab_window_del(struct kvslab_pool *pool, struct vm_area_struct *vma)
{
	struct kvslab_user *user = vma->vm_private_data;

	spin_lock(&pool->users_lock);
	if (--user->windows)
		user = NULL;
	else
		list_del(&user->node);
	spin_unlock(&pool->users_lock);
	if (!user)
		return;
	mmdrop(user->mm);
	kfree(user);
}

bool kvslab_window_unmapping(struct kvslab_pool *pool)
{
	struct kvslab_user *user;
	bool pending = false;

	spin_lock(&pool->users_lock);
	list_for_each_entry(user, &pool->users, node) {
		pending = mm_tlb_flush_pending(user->mm);
		if (pending)
			break;
	}
	spin_unlock(&pool->users_lock);
	return pending;
}
