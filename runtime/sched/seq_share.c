// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Sequences and the pool's index: matching a prefix, committing, sealing. */
#include <errno.h>

#include "hash.h"
#include "seq.h"

const struct kvslab_hash *seq_hashes(struct kvslab_seq *seq, uint32_t block)
{
	const struct kvslab_geometry *geo = &seq->kv->geo;
	uint32_t groups = geo->groups, g;

	for (; seq->hashed <= block; seq->hashed++) {
		size_t at = (size_t)seq->hashed * groups;

		for (g = 0; g < groups; g++, at++)
			hash_page(seq->kv, at ? &seq->hash[at - 1] : &seq->root, g,
				  seq->tokens + (size_t)seq->hashed * geo->page_tokens,
				  &seq->hash[at]);
	}
	return seq->hash + (size_t)block * groups;
}

/* Put the pages found in kv->found in the place of blocks [at, at + n). */
static void take_over(struct kvslab_seq *seq, uint32_t at, uint32_t n)
{
	uint32_t groups = seq->kv->geo.groups, i;
	uint32_t reserved = seq->blocks > at ? seq->blocks - at : 0;

	if (reserved > n)
		reserved = n;
	kv_free(seq->kv, seq->pages + (size_t)at * groups, (size_t)reserved * groups);
	for (i = 0; i < n * groups; i++)
		seq->pages[(size_t)at * groups + i] = seq->kv->found[i];
	if (seq->blocks < at + n)
		seq->blocks = at + n;
	seq->sealed = at + n;
	seq->committed = seq->sealed * seq->kv->geo.page_tokens;
	seq_map(seq, at, at + n);
}

int seq_match_more(struct kvslab_seq *seq)
{
	struct kvslab_kv *kv = seq->kv;
	uint32_t groups = kv->geo.groups, full = seq->length / kv->geo.page_tokens;
	uint32_t first = seq->sealed, at = first, n, whole;
	int rc;

	if (seq->committed != seq->sealed * kv->geo.page_tokens)
		return -EINVAL;
	rc = seq_room(seq, full);
	if (rc < 0)
		return rc;
	while (at < full) {
		n = full - at < kv_blocks_per_call(kv) ? full - at : kv_blocks_per_call(kv);
		seq_hashes(seq, at + n - 1);
		rc = kvslab_lookup(kv->pool, kv->cache.id, seq->hash + (size_t)at * groups,
				   n * groups, kv->found);
		if (rc < 0)
			break;
		whole = (uint32_t)rc / groups;
		kv_free(kv, kv->found + whole * groups, (uint32_t)rc - whole * groups);
		if (whole)
			take_over(seq, at, whole);
		at += whole;
		if (whole < n)
			break;
	}
	if (at == first && rc < 0)
		return rc;
	return (int)((at - first) * kv->geo.page_tokens);
}

int kvslab_seq_match(struct kvslab_seq *seq)
{
	if (seq->blocks)
		return -EINVAL;
	return seq_match_more(seq);
}

/* One call to the pool for blocks [at, at + n): all their groups, in the chain's order. */
static int seal_call(struct kvslab_seq *seq, uint32_t at, uint32_t n)
{
	struct kvslab_kv *kv = seq->kv;
	uint32_t groups = kv->geo.groups, i;
	int rc;

	seq_hashes(seq, at + n - 1);
	for (i = 0; i < n * groups; i++) {
		size_t p = (size_t)at * groups + i;

		kv->seals[i] = (struct kvslab_seal){
			.page = seq->pages[p],
			.hash = seq->hash[p],
			.parent = p ? seq->hash[p - 1] : seq->root,
			.depth = (uint32_t)p,
			.priority = seq->priority,
			.flags = p ? 0 : KVSLAB_SEAL_ROOT,
		};
	}
	rc = kvslab_seal(kv->pool, kv->seals, n * groups);
	if (rc < 0)
		return rc;
	/* Where the content was there already, the handle is now another page's. */
	for (i = 0; i < n * groups; i++)
		seq->pages[(size_t)at * groups + i] = kv->seals[i].page;
	seq->sealed = at + n;
	seq_map(seq, at, at + n);
	return 0;
}

/* Not a fault of the call: the pages stay private and usable, and the next commit tries again. */
static bool passing(int err)
{
	return err == -EBUSY || err == -ENOMEM || err == -ENOSPC || err == -EDQUOT;
}

int seq_seal(struct kvslab_seq *seq)
{
	uint32_t full = seq->committed / seq->kv->geo.page_tokens;
	uint32_t most = kv_blocks_per_call(seq->kv), n;
	int rc;

	while (seq->sealed < full) {
		n = full - seq->sealed < most ? full - seq->sealed : most;
		rc = seal_call(seq, seq->sealed, n);
		if (rc < 0 && passing(rc) && n > 1)
			most = 1; /* one page is in the way: those before it need not wait */
		else if (rc < 0)
			return passing(rc) ? 0 : rc;
	}
	return 0;
}

int kvslab_seq_commit(struct kvslab_seq *seq, uint32_t tokens)
{
	uint32_t pt = seq->kv->geo.page_tokens, before = seq->committed;
	int rc;

	if (tokens > seq->length || tokens > seq->blocks * pt)
		return -EINVAL;
	if (tokens > seq->committed)
		seq->committed = tokens;
	if (seq->keep_private)
		return 0;
	rc = seq_seal(seq);
	if (rc < 0)
		seq->committed = before > seq->sealed * pt ? before : seq->sealed * pt;
	return rc;
}
