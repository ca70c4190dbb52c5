/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * A sequence inside. Counts in tokens and in blocks, kept apart by name:
 *
 *   tokens  0 ........ committed ........ length        what is known, and how much of it is
 * computed blocks  0 .. sealed .. ceil(committed / page_tokens) .. blocks
 *
 * Blocks before `sealed` are read-only and shared through the pool, the others private. hashed is
 * about tokens alone, so it outlives the pages.
 */
#ifndef SCHED_SEQ_H
#define SCHED_SEQ_H

#include "kv.h"

struct kvslab_seq {
	struct kvslab_kv *kv;
	uint32_t *tokens; /* [token_cap] */
	uint32_t token_cap, length;
	uint32_t committed; /* tokens */
	uint32_t blocks; /* with pages */
	uint32_t sealed; /* blocks, from the first on */
	uint32_t hashed; /* blocks whose hashes are known */
	uint32_t block_cap;
	kvslab_handle *pages; /* [block_cap][groups] */
	struct kvslab_hash *hash; /* [block_cap][groups] */
	const void **ro; /* [groups][block_cap] */
	void **rw; /* [groups][block_cap]; NULL where sealed */
	struct kvslab_hash root;
	uint8_t priority; /* eviction class of its pages */
	bool keep_private; /* do not seal at commit (nobody is to find it); fork seals, to share */
};

/* Room in the tables for this many blocks. -ENOMEM. */
int seq_room(struct kvslab_seq *seq, uint32_t blocks);
/* Fill in the addresses of the pages of blocks [from, to). */
void seq_map(struct kvslab_seq *seq, uint32_t from, uint32_t to);
/* Give back the pages of the blocks from @from on; the caller puts the counts right. */
void seq_drop(struct kvslab_seq *seq, uint32_t from);
/* The hashes of block @block, which must be full; computes what is missing. Room for it must be
 * there. */
const struct kvslab_hash *seq_hashes(struct kvslab_seq *seq, uint32_t block);
/* Seal what is committed and full. 0 also when the pool wants it tried again later; else its error.
 */
int seq_seal(struct kvslab_seq *seq);
/* Seal what is full among the first @tokens[i], all computed, of each sequence, in as few calls as there can be. Where that
 * fails, or there is too much, the next kvslab_seq_commit() does it, or says why not. */
void seq_seal_all(struct kvslab_seq *const *seqs, const uint32_t *tokens, uint32_t n);
/* kvslab_seq_match that may start in the middle: all that is committed must be sealed. Pages that
 * were reserved for what is found go back. Returns the tokens found. */
int seq_match_more(struct kvslab_seq *seq);
/* The same in two halves, with the call to the pool in between. @found has room for @room pages. False: nothing to ask,
 * or no room for it. */
bool seq_match_prepare(struct kvslab_seq *seq, struct pool_call *call, kvslab_handle *found, uint32_t room);
int seq_match_take(struct kvslab_seq *seq, const struct pool_call *call);
/* kvslab_seq_fork; with @shared_only nothing of @seq is sealed or copied (an executor may be
 * writing there): the child has the sealed blocks and computes the rest itself. */
int seq_fork(struct kvslab_seq *seq, struct kvslab_seq **child, bool shared_only);

#endif
