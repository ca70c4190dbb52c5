/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* /dev/kvslab_exporter: dma-bufs for tests, of any size, with nothing behind them. */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

struct exporter_new {
	__u64 size; /* bytes */
	__s32 keep; /* a descriptor of a file that the dma-buf keeps, as drivers do; -1: none */
	__u32 reserved;
};

struct exporter_count {
	__u32 alive; /* dma-bufs */
	__u32 asked; /* times that anybody wanted anything of one: to attach, map, pin, read */
};

#define EXPORTER_NEW _IOW('x', 1, struct exporter_new) /* returns a descriptor */
#define EXPORTER_COUNT _IOR('x', 2, struct exporter_count)
#define EXPORTER_REVOKE _IO('x', 3) /* from now on every dma-buf refuses with ENODEV, not EPERM */

#endif
