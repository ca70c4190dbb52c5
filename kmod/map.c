// SPDX-License-Identifier: GPL-2.0
/*
 * Windows. A fault looks at the page's state and maps its frames under the extent's map_sem; who
 * changes the state has it written first, then unmaps with map_sem held for writing. So a page that
 * was sealed, freed to others, or evicted is mapped by nobody who may not have it.
 *
 * Frames are inserted as ordinary ones under VM_MIXEDMAP, which get_user_pages() takes, so that O_DIRECT
 * and devices can use them; a whole page at each fault.
 */
#include <linux/delay.h>

#include "kmod.h"

#define ARENA_SHIFT 42
#define WINDOW_BYTES KVSLAB_MAP_WRITE

/* An address in a mapping. */
struct place {
	u32 extent, offset;
	bool write; /* the writable window */
};

static struct place place_of(const struct vm_fault *vmf)
{
	u64 at = (u64)vmf->pgoff << PAGE_SHIFT;
	struct place p = {
		.extent = (at & (WINDOW_BYTES - 1)) >> KVC_EXTENT_SHIFT,
		.offset = at & (KVC_EXTENT_SIZE - 1),
		.write = at & KVSLAB_MAP_WRITE,
	};

	return p;
}

#define BATCH 32 /* frames in one call */

/* Frames [from, to) of an extent, those that are there already left alone. */
static int insert_run(struct vm_area_struct *vma, unsigned long address,
		      const struct kvslab_extent *x, u32 from, u32 to)
{
	struct page *frames[BATCH] KVSLAB_UNINITIALIZED;
	unsigned long n, left;
	u32 i;
	int r;

	while (from < to) {
		n = min_t(u32, to - from, BATCH);
		for (i = 0; i < n; i++)
			frames[i] = kvslab_frame(x, from + i);
		left = n;
		r = vm_insert_pages(vma, address, frames, &left);
		if (r && r != -EBUSY)
			return r;
		n -= left;
		if (r)
			n++;
		from += n;
		address += n * PAGE_SIZE;
	}
	return 0;
}

/* map_sem held. All frames of the page that lie in the mapping. */
static vm_fault_t insert(struct vm_fault *vmf, const struct place *p, const struct kvc_at *at)
{
	struct kvslab_extent *x = &kvslab_extents[p->extent];
	struct vm_area_struct *vma = vmf->vma;
	unsigned long here = vmf->address & PAGE_MASK;
	u32 frame = p->offset / PAGE_SIZE, from = at->offset / PAGE_SIZE;
	u32 to = from + at->size / PAGE_SIZE;
	int r = vm_insert_page(vma, here, kvslab_frame(x, frame));

	if (r == -ENOMEM)
		return VM_FAULT_OOM;
	if (r && r != -EBUSY)
		return VM_FAULT_SIGBUS;
	if (frame - from > (here - vma->vm_start) / PAGE_SIZE)
		from = frame - (here - vma->vm_start) / PAGE_SIZE;
	if (to - frame > (vma->vm_end - here) / PAGE_SIZE)
		to = frame + (vma->vm_end - here) / PAGE_SIZE;
	/* What fails now comes with a fault of its own. */
	insert_run(vma, here - (unsigned long)(frame - from) * PAGE_SIZE, x, from, to);
	return VM_FAULT_NOPAGE;
}

static vm_fault_t fault(struct vm_fault *vmf)
{
	struct kvslab_client *client = vmf->vma->vm_file->private_data;
	struct kvslab_pool *pool = client->pool;
	struct place p = place_of(vmf);
	struct kvslab_extent *x;
	struct kvc_at at;
	vm_fault_t r = VM_FAULT_SIGBUS;
	bool wait = false;

	if (p.extent >= kvslab_nr_extents)
		return VM_FAULT_SIGBUS;
	x = &kvslab_extents[p.extent];
	down_read(&x->map_sem);
	if (!READ_ONCE(pool->dead) &&
	    !kvc_page_at(pool->core, p.write ? client->core : NULL, p.extent, p.offset, &at)) {
		if (p.write ? at.writable : at.readable)
			r = insert(vmf, &p, &at);
		else
			wait = at.sealing && !p.write;
	}
	up_read(&x->map_sem);
	if (!wait)
		return r;
	/* A seal takes as long as unmapping does; then whoever reads may go on, and tries again. */
	usleep_range(20, 100);
	return VM_FAULT_NOPAGE;
}

atomic_t kvslab_windows = ATOMIC_INIT(0);

/* A mapping is split or moved. */
static void came(struct vm_area_struct *vma)
{
	atomic_inc(&kvslab_windows);
}

static struct kvslab_pool *pool_of(const struct vm_area_struct *vma)
{
	struct kvslab_client *client = vma->vm_file->private_data;

	return client->pool;
}

static void window_came(struct vm_area_struct *vma)
{
	came(vma);
	kvslab_window_copied(pool_of(vma), vma);
}

static void window_went(struct vm_area_struct *vma)
{
	kvslab_window_del(pool_of(vma), vma);
}

const struct vm_operations_struct kvslab_vm_ops = {
	.open = window_came,
	.close = window_went,
	.fault = fault,
};

/* Has a name only so that command arguments there are refused like those in the windows. */
const struct vm_operations_struct kvslab_counters_vm_ops = {
	.open = came,
};

static int map_counters(struct kvslab_pool *pool, struct vm_area_struct *vma)
{
	if (vma_pages(vma) != 1 || (u64)vma->vm_pgoff << PAGE_SHIFT != KVSLAB_MAP_COUNTERS)
		return -EINVAL;
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_ops = &kvslab_counters_vm_ops;
	return vm_insert_page(vma, vma->vm_start, virt_to_page(pool->counters));
}

int kvslab_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct kvslab_client *client = file->private_data;
	u64 at = (u64)vma->vm_pgoff << PAGE_SHIFT, size = vma->vm_end - vma->vm_start;
	u64 bytes = (u64)kvslab_nr_extents << KVC_EXTENT_SHIFT, offset = at & (WINDOW_BYTES - 1);
	int r;

	atomic_inc(&kvslab_windows);
	if (READ_ONCE(client->pool->dead))
		return -ENODEV;
	/* VM_SHARED is off where a descriptor open for reading is mapped MAP_SHARED. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (at >= KVSLAB_MAP_COUNTERS)
		return map_counters(client->pool, vma);
	if (at >> ARENA_SHIFT || offset >= bytes || size > bytes - offset)
		return -EINVAL;
	if (at & KVSLAB_MAP_WRITE) {
		if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
			return -EACCES;
	} else {
		if (vma->vm_flags & VM_WRITE)
			return -EACCES;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	r = kvslab_window_add(client->pool, vma);
	if (r)
		return r;
	vm_flags_clear(vma, VM_MAYEXEC);
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	vma->vm_ops = &kvslab_vm_ops;
	return 0;
}

void kvslab_unmap(struct kvslab_pool *pool, u32 extent, u32 offset, u32 size)
{
	loff_t at = ((loff_t)extent << KVC_EXTENT_SHIFT) + offset;

	unmap_mapping_range(pool->inode->i_mapping, KVSLAB_MAP_READ + at, size, 1);
	unmap_mapping_range(pool->inode->i_mapping, KVSLAB_MAP_WRITE + at, size, 1);
}

/* Whoever saw the pool alive has mapped what it wanted to when its extent's map_sem was had. */
void kvslab_unmap_all(struct kvslab_pool *pool)
{
	u32 i;

	for (i = 0; i < kvslab_nr_extents; i++) {
		if (READ_ONCE(kvslab_extents[i].pool) != pool)
			continue;
		down_write(&kvslab_extents[i].map_sem);
		up_write(&kvslab_extents[i].map_sem);
		cond_resched();
	}
	unmap_mapping_range(pool->inode->i_mapping, 0, KVSLAB_MAP_COUNTERS, 1);
}
