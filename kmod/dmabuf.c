// SPDX-License-Identifier: GPL-2.0
/*
 * EXPORT: a dma-buf of one extent of a pinned cache. Such an extent keeps its frames until its pool
 * ends, and the dma-buf keeps the client's file, so the frames outlive every attachment. What it shows is
 * memory, not pages: no state is looked at, and a mapping of it is not emptied by a seal.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "kmod.h"

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

struct export {
	struct file *file; /* the client's */
	u32 extent;
};

static struct sg_table *export_map(struct dma_buf_attachment *at, enum dma_data_direction dir)
{
	struct export *e = at->dmabuf->priv;
	struct sg_table *table = kmalloc(sizeof(*table), GFP_KERNEL);
	struct page **frames = kmalloc_array(KVSLAB_FRAMES, sizeof(*frames), GFP_KERNEL);
	int r = -ENOMEM;
	u32 i;

	if (!table || !frames)
		goto free_table;
	for (i = 0; i < KVSLAB_FRAMES; i++)
		frames[i] = kvslab_frame(&kvslab_extents[e->extent], i);
	r = sg_alloc_table_from_pages(table, frames, KVSLAB_FRAMES, 0, KVC_EXTENT_SIZE,
				      GFP_KERNEL);
	if (r)
		goto free_table;
	r = dma_map_sgtable(at->dev, table, dir, 0);
	if (r)
		goto free_sg;
	kfree(frames);
	return table;

free_sg:
	sg_free_table(table);
free_table:
	kfree(frames);
	kfree(table);
	return ERR_PTR(r);
}

static void export_unmap(struct dma_buf_attachment *at, struct sg_table *table,
			 enum dma_data_direction dir)
{
	dma_unmap_sgtable(at->dev, table, dir, 0);
	sg_free_table(table);
	kfree(table);
}

static int export_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct export *e = buf->priv;
	unsigned long first = vma->vm_pgoff, n = vma_pages(vma), i;
	int r = 0;

	if (first >= KVSLAB_FRAMES || n > KVSLAB_FRAMES - first)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	vm_flags_clear(vma, VM_MAYEXEC);
	for (i = 0; i < n && !r; i++)
		r = vm_insert_page(vma, vma->vm_start + i * PAGE_SIZE,
				   kvslab_frame(&kvslab_extents[e->extent], first + i));
	return r;
}

static void export_release(struct dma_buf *buf)
{
	struct export *e = buf->priv;

	fput(e->file);
	kfree(e);
}

static const struct dma_buf_ops export_ops = {
	.map_dma_buf = export_map,
	.unmap_dma_buf = export_unmap,
	.mmap = export_mmap,
	.release = export_release,
};

bool kvslab_is_export(const struct dma_buf *buf)
{
	return buf->ops == &export_ops;
}

long kvslab_cmd_export(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	struct kvslab_pool *pool = ((struct kvslab_client *)file->private_data)->pool;
	const struct kvslab_args_export *a = args;
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct kvc_cache_stat cache;
	struct kvc_slab_stat slab;
	struct dma_buf *buf;
	struct export *e;
	u32 from = a->extent;
	int fd;

	if (READ_ONCE(pool->dead))
		return -ENODEV;
	if (a->flags & ~KVSLAB_EXPORT_CLOEXEC || a->reserved ||
	    kvc_cache_stat(pool->core, a->cache, &cache) || !cache.pinned)
		return -EINVAL;
	/* A slab of a pinned cache stays: what is seen here holds. */
	if (!kvc_slabs(pool->core, &from, &slab, 1) || slab.extent != a->extent ||
	    slab.cache != a->cache)
		return -ENOENT;
	if (nowait)
		return -EAGAIN;
	if (kvslab_exports(file->private_data))
		return -EBUSY;
	e = kmalloc(sizeof(*e), GFP_KERNEL_ACCOUNT);
	if (!e)
		return -ENOMEM;
	e->file = get_file(file);
	e->extent = a->extent;
	info.ops = &export_ops;
	info.size = KVC_EXTENT_SIZE;
	info.flags = O_RDWR;
	info.priv = e;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		fput(file);
		kfree(e);
		return PTR_ERR(buf);
	}
	fd = dma_buf_fd(buf, a->flags & KVSLAB_EXPORT_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

KVSLAB_IMPORT_DMA_BUF;

#else

bool kvslab_is_export(const struct dma_buf *buf)
{
	return false;
}

long kvslab_cmd_export(struct file *file, void *args, void __user *user, u32 size, bool nowait)
{
	return -EOPNOTSUPP;
}

#endif
