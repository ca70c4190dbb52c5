/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which priority class the policy keep_prefixes gives a page; for the BPF program and for the replay of traces.
 *
 * A page begins in the class that its SEAL named. What is found eight times moves to class 1, sixteen times to 2, and
 * so on; every 64 pages of depth in the chain halve the count. So what many prompts begin with outlives a flood
 * of prompts that come once. A class never sinks, nor below the class of a page deeper in the same chain.
 */
#ifndef KEEP_PREFIXES_H
#define KEEP_PREFIXES_H

#define KEEP_PREFIXES_CLASSES 8
#define KEEP_PREFIXES_HITS 8 /* of class 1 at the chain's beginning; a power of two */
#define KEEP_PREFIXES_DEPTH 64 /* pages */

static inline unsigned int keep_prefixes_class(unsigned int depth, unsigned int hits, unsigned int class)
{
	unsigned int far = depth / KEEP_PREFIXES_DEPTH, n, kept = 0;

	if (far > 31)
		far = 31;
	for (n = (hits / KEEP_PREFIXES_HITS) >> far; n && kept < KEEP_PREFIXES_CLASSES - 1; n >>= 1)
		kept++;
	return kept > class ? kept : class;
}

#endif
