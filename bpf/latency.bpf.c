// SPDX-License-Identifier: GPL-2.0
/*
 * How long commands take in the module, by pool and command, as ioctl and as io_uring command. One
 * that a worker of io_uring repeats is timed there: its first try has no answer.
 */
#include "hist.bpf.h"

#define EAGAIN 11
#define HOW_RING 1

COUNTS(command_seconds, struct kvb_command, 65536);
COUNTS(command_errors_total, struct kvb_command, 4096);

/* By thread: when its command began. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} running SEC(".maps");

SEC("raw_tp/kvslab_command_begin")
int BPF_PROG(latency_begin)
{
	u64 thread = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&running, &thread, &now, BPF_ANY))
		lose(KVB_LOST_FULL, 1);
	return 0;
}

SEC("raw_tp/kvslab_command_end")
int BPF_PROG(latency_end, u32 pool, u32 client, u32 command, u32 how, s64 result)
{
	u64 thread = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	u64 *began = bpf_map_lookup_elem(&running, &thread);
	struct kvb_command key = { pool, command, 0 };
	u64 ns;

	if (how == HOW_RING && result == -EAGAIN)
		goto out;
	if (result < 0)
		count(&command_errors_total, &key, 1);
	if (!began) {
		lose(KVB_LOST_UNKNOWN, 1);
		return 0;
	}
	ns = now - *began;
	hist_add(&command_seconds, &key, &key.slot, ns, ns, 1);
out:
	bpf_map_delete_elem(&running, &thread);
	return 0;
}
