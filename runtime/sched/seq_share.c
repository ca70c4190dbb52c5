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

/* Put the pages @found in the place of blocks [at, at + n). */
static void take_over(struct kvslab_seq *seq, uint32_t at, uint32_t n, const kvslab_handle *found)
{
	uint32_t groups = seq->kv->geo.groups, i;
	uint32_t reserved = seq->blocks > at ? seq->blocks - at : 0;

	if (reserved > n)
		reserved = n;
	kv_free(seq->kv, seq->pages + (size_t)at * groups, (size_t)reserved * groups);
	for (i = 0; i < n * groups; i++)
		seq->pages[(size_t)at * groups + i] = found[i];
	if (seq->blocks < at + n)
		seq->blocks = at + n;
	seq->sealed = at + n;
	seq->committed = seq->sealed * seq->kv->geo.page_tokens;
	seq_map(seq, at, at + n);
}

static uint32_t full_blocks(const struct kvslab_seq *seq)
{
	return seq->length / seq->kv->geo.page_tokens;
}

static void lookup_of(struct kvslab_seq *seq, uint32_t n, kvslab_handle *found, struct pool_call *call)
{
	uint32_t groups = seq->kv->geo.groups, at = seq->sealed;

	seq_hashes(seq, at + n - 1);
	*call = (struct pool_call){
		POOL_LOOKUP,
		.cache = seq->kv->cache.id,
		.hashes = seq->hash + (size_t)at * groups,
		.pages = found,
		.n = n * groups,
	};
}

/* Blocks taken over, or the call's error. Of a block only whole ones are of use. */
static int take_found(struct kvslab_seq *seq, const struct pool_call *call)
{
	uint32_t groups = seq->kv->geo.groups, whole;

	if (call->result < 0)
		return call->result;
	whole = (uint32_t)call->result / groups;
	kv_free(seq->kv, call->pages + whole * groups, (uint32_t)call->result - whole * groups);
	if (whole)
		take_over(seq, seq->sealed, whole, call->pages);
	return (int)whole;
}

int seq_match_more(struct kvslab_seq *seq)
{
	struct kvslab_kv *kv = seq->kv;
	uint32_t full = full_blocks(seq), first = seq->sealed, n;
	struct pool_call call;
	int rc;

	if (seq->committed != seq->sealed * kv->geo.page_tokens)
		return -EINVAL;
	rc = seq_room(seq, full);
	if (rc < 0)
		return rc;
	while (seq->sealed < full) {
		n = full - seq->sealed;
		if (n > kv_blocks_per_call(kv))
			n = kv_blocks_per_call(kv);
		lookup_of(seq, n, kv->found, &call);
		call.result = kvslab_lookup(kv->pool, call.cache, call.hashes, call.n, call.pages);
		rc = take_found(seq, &call);
		if (rc < (int)n)
			break;
	}
	if (seq->sealed == first && rc < 0)
		return rc;
	return (int)((seq->sealed - first) * kv->geo.page_tokens);
}

bool seq_match_prepare(struct kvslab_seq *seq, struct pool_call *call, kvslab_handle *found, uint32_t room)
{
	struct kvslab_kv *kv = seq->kv;
	uint32_t full = full_blocks(seq), n = full > seq->sealed ? full - seq->sealed : 0;

	if (n > kv_blocks_per_call(kv))
		n = kv_blocks_per_call(kv);
	if (!n || n * kv->geo.groups > room || seq->committed != seq->sealed * kv->geo.page_tokens ||
	    seq_room(seq, full))
		return false;
	lookup_of(seq, n, found, call);
	return true;
}

int seq_match_take(struct kvslab_seq *seq, const struct pool_call *call)
{
	uint32_t pt = seq->kv->geo.page_tokens;
	int rc = take_found(seq, call), more;

	if (rc <= 0)
		return rc;
	more = (uint32_t)rc * seq->kv->geo.groups == call->n ? seq_match_more(seq) : 0;
	return rc * (int)pt + (more > 0 ? more : 0);
}

int kvslab_seq_match(struct kvslab_seq *seq)
{
	if (seq->blocks)
		return -EINVAL;
	return seq_match_more(seq);
}

/* The seals of blocks [at, at + n): all their groups, in the chain's order. */
static void fill_seals(struct kvslab_seq *seq, uint32_t at, uint32_t n, struct kvslab_seal *seals)
{
	uint32_t groups = seq->kv->geo.groups, i;

	seq_hashes(seq, at + n - 1);
	for (i = 0; i < n * groups; i++) {
		size_t p = (size_t)at * groups + i;

		seals[i] = (struct kvslab_seal){
			.page = seq->pages[p],
			.hash = seq->hash[p],
			.parent = p ? seq->hash[p - 1] : seq->root,
			.depth = (uint32_t)p,
			.priority = seq->priority,
			.flags = p ? 0 : KVSLAB_SEAL_ROOT,
		};
	}
}

/* Where the content was there already, the handle is now another page's. */
static void take_sealed(struct kvslab_seq *seq, uint32_t n, const struct kvslab_seal *seals)
{
	uint32_t groups = seq->kv->geo.groups, at = seq->sealed, i;

	for (i = 0; i < n * groups; i++)
		seq->pages[(size_t)at * groups + i] = seals[i].page;
	seq->sealed = at + n;
	/* Somebody may look at it before its commit: a callback that forks it. */
	if (seq->committed < seq->sealed * seq->kv->geo.page_tokens)
		seq->committed = seq->sealed * seq->kv->geo.page_tokens;
	seq_map(seq, at, at + n);
}

static int seal_call(struct kvslab_seq *seq, uint32_t n)
{
	struct kvslab_kv *kv = seq->kv;
	int rc;

	fill_seals(seq, seq->sealed, n, kv->seals);
	rc = kvslab_seal(kv->pool, kv->seals, n * kv->geo.groups);
	if (!rc)
		take_sealed(seq, n, kv->seals);
	return rc;
}

static uint32_t blocks_to_seal(const struct kvslab_seq *seq, uint32_t tokens)
{
	uint32_t full = tokens / seq->kv->geo.page_tokens;

	return seq->keep_private || full <= seq->sealed || full > seq->blocks ? 0 : full - seq->sealed;
}

/* From sequence @i on as many as go into one call, whose seals are made; returns where the next call begins. */
static uint32_t seal_some(struct kvslab_seq *const *seqs, const uint32_t *tokens, uint32_t i, uint32_t end)
{
	struct kvslab_kv *kv = seqs[i]->kv;
	uint32_t groups = kv->geo.groups, first = i, at = 0, n;
	struct pool_call call;

	for (; i < end; i++) {
		n = blocks_to_seal(seqs[i], tokens[i]);
		if (n > kv_blocks_per_call(kv))
			n = 0; /* alone it is in pieces */
		if (n * groups > KVSLAB_BATCH_MAX - at)
			break;
		if (n)
			fill_seals(seqs[i], seqs[i]->sealed, n, kv->seals + at);
		at += n * groups;
	}
	if (!at)
		return i;
	call = (struct pool_call){ POOL_SEAL, .seals = kv->seals, .n = at };
	pool_calls(kv->pool, &call, 1);
	for (at = 0; !call.result && first < i; first++) {
		n = blocks_to_seal(seqs[first], tokens[first]);
		if (!n || n > kv_blocks_per_call(kv))
			continue;
		take_sealed(seqs[first], n, kv->seals + at);
		at += n * groups;
	}
	return i;
}

void seq_seal_all(struct kvslab_seq *const *seqs, const uint32_t *tokens, uint32_t n)
{
	uint32_t i = 0;

	while (i < n)
		i = seal_some(seqs, tokens, i, n);
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
		rc = seal_call(seq, n);
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
