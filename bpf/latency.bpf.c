// SPDX-License-Identifier: GPL-2.0
/*
 * How long commands take, by pool and command. There is no tracepoint around a command: the ioctl
 * is timed, and a page event inside it tells the pool. Commands of io_uring are not seen; their
 * page events are counted as outside.
 */
#include <asm/ptrace.h>

#include "kvslab.bpf.h"

#ifdef __TARGET_ARCH_arm64
#define SECOND(regs) (&((struct user_pt_regs *)(regs))->regs[1])
#else
#define SECOND(regs) (&((struct pt_regs *)(regs))->rsi)
#endif

#define OURS 0xc010bc00u /* _IOWR(0xBC, 0, 16 bytes) */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct kvb_command);
	__type(value, struct kvb_latency);
} commands SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct kvb_running);
} running SEC(".maps");

static const struct kvb_latency none;

SEC("raw_tp/sys_enter")
int BPF_PROG(latency_enter, void *regs)
{
	struct kvb_running r = { 0 };
	unsigned long cmd;
	u64 thread;

	if (bpf_probe_read_kernel(&cmd, sizeof(cmd), SECOND(regs)) || ((u32)cmd & ~0xffu) != OURS)
		return 0;
	thread = bpf_get_current_pid_tgid();
	r.command = cmd & 0xff;
	r.began = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&running, &thread, &r, BPF_ANY))
		lose(full);
	return 0;
}

SEC("raw_tp/sys_exit")
int BPF_PROG(latency_exit, void *regs, long result)
{
	u64 thread = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	struct kvb_running *r = bpf_map_lookup_elem(&running, &thread);
	struct kvb_command key = { 0 };
	struct kvb_latency *l;

	if (!r)
		return 0;
	key.pool = r->pool;
	key.command = r->command;
	l = get_or_make(&commands, &key, &none);
	if (l) {
		hist_add(&l->ns, now - r->began);
		if (result < 0)
			add(&l->errors, 1);
	}
	bpf_map_delete_elem(&running, &thread);
	return 0;
}

static __always_inline int inside(u32 pool)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct kvb_running *r = bpf_map_lookup_elem(&running, &thread);

	if (r)
		r->pool = pool;
	else
		lose(outside);
	return 0;
}

SEC("raw_tp/kvslab_page_alloc")
int BPF_PROG(latency_alloc, u32 pool)
{
	return inside(pool);
}

SEC("raw_tp/kvslab_page_free")
int BPF_PROG(latency_free, u32 pool)
{
	return inside(pool);
}

SEC("raw_tp/kvslab_page_seal")
int BPF_PROG(latency_seal, u32 pool)
{
	return inside(pool);
}

SEC("raw_tp/kvslab_lookup")
int BPF_PROG(latency_lookup, u32 pool)
{
	return inside(pool);
}

SEC("raw_tp/kvslab_quota")
int BPF_PROG(latency_quota, u32 pool)
{
	return inside(pool);
}
