// SPDX-License-Identifier: GPL-2.0
/*
 * Pools' nodes and files. All nodes share one range of minors; open() finds the pool by its minor,
 * so a node made with mknod leads to the same pool. Inodes of a character device share no
 * address_space, so each file's mapping is that of the pool's own inode, where every window can be
 * found to be unmapped.
 */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/mm.h>

#include "kmod.h"

#define MINORS (1u << MINORBITS)
#define MAGIC 0x6b767362 /* "kvsb" */

static dev_t first;
static struct cdev cdev;
static struct class *class;
static struct vfsmount *mount;

/* ---- inodes ---- */

static int fs_context(struct fs_context *context)
{
	return init_pseudo(context, MAGIC) ? 0 : -ENOMEM;
}

/* Without an owner: our own mount would keep the module. It goes with the last pool. */
static struct file_system_type fs = {
	.name = "kvslab",
	.init_fs_context = fs_context,
	.kill_sb = kill_anon_super,
};

struct inode *kvslab_inode_new(void)
{
	return alloc_anon_inode(mount->mnt_sb);
}

/* ---- nodes ---- */

static char *node_name(KVSLAB_DEVNODE_DEV *dev, umode_t *mode, kuid_t *uid, kgid_t *gid)
{
	const struct kvslab_pool *pool = dev_get_drvdata(dev);

	if (mode)
		*mode = pool->mode;
	if (uid)
		*uid = pool->uid;
	if (gid)
		*gid = pool->gid;
	return kasprintf(GFP_KERNEL, "kvslab/%s", dev_name(dev));
}

static const struct device_type node_type = {
	.name = "kvslab_pool",
	.devnode = node_name,
};

static void node_release(struct device *dev)
{
	kfree(dev);
}

int kvslab_node_add(struct kvslab_pool *pool)
{
	struct device *dev;
	int r;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	device_initialize(dev);
	dev->class = class;
	dev->type = &node_type;
	dev->release = node_release;
	dev->devt = MKDEV(MAJOR(first), pool->id);
	dev_set_drvdata(dev, pool);
	r = dev_set_name(dev, "%s", pool->name);
	if (!r)
		r = device_add(dev);
	if (r) {
		put_device(dev);
		return r;
	}
	pool->dev = dev;
	return 0;
}

void kvslab_node_del(struct kvslab_pool *pool)
{
	if (!pool->dev)
		return;
	device_unregister(pool->dev);
	pool->dev = NULL;
}

u32 kvslab_node_major(void)
{
	return MAJOR(first);
}

/* ---- files ---- */

static struct kvslab_pool *get_pool(u32 minor)
{
	struct kvslab_pool *pool;

	list_for_each_entry(pool, &kvslab_pool_list, node) {
		if (pool->id != minor)
			continue;
		kref_get(&pool->ref);
		return pool;
	}
	return NULL;
}

static int pool_open(struct inode *inode, struct file *file)
{
	struct kvslab_client *client;
	struct kvslab_pool *pool;
	void *mem;
	int r;

	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return -ENOMEM;
	mutex_lock(&kvslab_mutex);
	pool = get_pool(iminor(inode));
	if (pool)
		pool->nr_clients++;
	mutex_unlock(&kvslab_mutex);
	if (!pool) {
		kfree(client);
		return -ENODEV;
	}
	mem = kvslab_table_alloc(kvc_client_size(pool->core));
	r = mem ? kvc_client_init(mem, pool->core, &client->core) : -ENOMEM;
	if (r)
		goto fail;
	client->pool = pool;
	client->pid = get_pid(task_tgid(current));
	get_task_comm(client->comm, current);
	INIT_LIST_HEAD(&client->imports);
	mutex_lock(&kvslab_mutex);
	list_add_tail(&client->node, &pool->clients);
	mutex_unlock(&kvslab_mutex);
	file->private_data = client;
	file->f_mapping = pool->inode->i_mapping;
	return nonseekable_open(inode, file);

fail:
	kvfree(mem);
	kfree(client);
	mutex_lock(&kvslab_mutex);
	pool->nr_clients--;
	mutex_unlock(&kvslab_mutex);
	kvslab_pool_put(pool);
	return r;
}

/* The last descriptor, mapping and dma-buf are gone: what the client held goes with it. */
static int pool_release(struct inode *inode, struct file *file)
{
	struct kvslab_client *client = file->private_data;
	struct kvslab_pool *pool = client->pool;
	struct kvc_op *op = kmalloc(sizeof(*op), GFP_KERNEL | __GFP_NOFAIL);

	mutex_lock(&kvslab_mutex);
	list_del(&client->node);
	mutex_unlock(&kvslab_mutex);
	kvslab_devices_leave(client);
	kvc_op_init(op);
	KVSLAB_RUN(pool, op, kvc_client_exit(client->core, op));
	kfree(op);
	kvfree(client->core);
	put_pid(client->pid);
	kfree(client->work);
	kfree(client);
	mutex_lock(&kvslab_mutex);
	pool->nr_clients--;
	mutex_unlock(&kvslab_mutex);
	kvslab_pool_put(pool);
	return 0;
}

static long pool_ioctl(struct file *file, unsigned int op, unsigned long arg)
{
	return kvslab_ioctl(file, kvslab_pool_commands, kvslab_nr_pool_commands, op, arg);
}

static int pool_uring(struct io_uring_cmd *cmd, unsigned int flags)
{
	return kvslab_uring(cmd, flags, kvslab_pool_commands, kvslab_nr_pool_commands);
}

const struct file_operations kvslab_pool_fops = {
	.owner = THIS_MODULE,
	.open = pool_open,
	.release = pool_release,
	.unlocked_ioctl = pool_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.uring_cmd = pool_uring,
	.mmap = kvslab_mmap,
	.poll = kvslab_poll,
};

int kvslab_nodes_init(void)
{
	int r;

	mount = kern_mount(&fs);
	if (IS_ERR(mount))
		return PTR_ERR(mount);
	r = alloc_chrdev_region(&first, 0, MINORS, "kvslab");
	if (r)
		goto free_mount;
	class = kvslab_class_create("kvslab");
	if (IS_ERR(class)) {
		r = PTR_ERR(class);
		goto free_region;
	}
	cdev_init(&cdev, &kvslab_pool_fops);
	cdev.owner = THIS_MODULE;
	r = cdev_add(&cdev, first, MINORS);
	if (r)
		goto free_class;
	return 0;

free_class:
	class_destroy(class);
free_region:
	unregister_chrdev_region(first, MINORS);
free_mount:
	kern_unmount(mount);
	return r;
}

void kvslab_nodes_exit(void)
{
	cdev_del(&cdev);
	class_destroy(class);
	unregister_chrdev_region(first, MINORS);
	kern_unmount(mount);
}
