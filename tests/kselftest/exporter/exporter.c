// SPDX-License-Identifier: GPL-2.0
/*
 * A dma-buf exporter that refuses everything, counts who asked, revokes, and keeps other files as real
 * exporters may. Its dma-bufs have a size and no memory: who never touches them gets along with that.
 */
#include <linux/atomic.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "exporter.h"

struct buf {
	struct file *kept;
};

static atomic_t alive, asked;
static bool revoked;

static int refuse(void)
{
	atomic_inc(&asked);
	return READ_ONCE(revoked) ? -ENODEV : -EPERM;
}

static int buf_attach(struct dma_buf *buf, struct dma_buf_attachment *at)
{
	return refuse();
}

static struct sg_table *buf_map(struct dma_buf_attachment *at, enum dma_data_direction dir)
{
	return ERR_PTR(refuse());
}

static void buf_unmap(struct dma_buf_attachment *at, struct sg_table *table, enum dma_data_direction dir)
{
}

static int buf_begin(struct dma_buf *buf, enum dma_data_direction dir)
{
	return refuse();
}

static int buf_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	return refuse();
}

static void buf_release(struct dma_buf *buf)
{
	struct buf *b = buf->priv;

	if (b->kept)
		fput(b->kept);
	kfree(b);
	atomic_dec(&alive);
}

static const struct dma_buf_ops buf_ops = {
	.attach = buf_attach,
	.map_dma_buf = buf_map,
	.unmap_dma_buf = buf_unmap,
	.begin_cpu_access = buf_begin,
	.mmap = buf_mmap,
	.release = buf_release,
};

static long new_buf(const struct exporter_new *args)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf;
	struct buf *b;
	int fd;

	b = kzalloc(sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	if (args->keep >= 0) {
		b->kept = fget(args->keep);
		if (!b->kept) {
			kfree(b);
			return -EBADF;
		}
	}
	info.ops = &buf_ops;
	info.size = args->size;
	info.flags = O_RDWR;
	info.priv = b;
	atomic_inc(&alive);
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		if (b->kept)
			fput(b->kept);
		kfree(b);
		atomic_dec(&alive);
		return PTR_ERR(buf);
	}
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

static long exporter_ioctl(struct file *file, unsigned int op, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	struct exporter_count count = { 0 };
	struct exporter_new args;

	switch (op) {
	case EXPORTER_NEW:
		return copy_from_user(&args, user, sizeof(args)) ? -EFAULT : new_buf(&args);
	case EXPORTER_COUNT:
		count.alive = atomic_read(&alive);
		count.asked = atomic_read(&asked);
		return copy_to_user(user, &count, sizeof(count)) ? -EFAULT : 0;
	case EXPORTER_REVOKE:
		WRITE_ONCE(revoked, true);
		return 0;
	}
	return -ENOTTY;
}

static const struct file_operations exporter_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = exporter_ioctl,
};

static struct miscdevice exporter = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kvslab_exporter",
	.mode = 0600,
	.fops = &exporter_fops,
};
module_misc_device(exporter);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("dma-bufs for the tests of kvslab");
#ifdef NS_STRING
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif
