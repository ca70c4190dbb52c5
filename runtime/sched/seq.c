// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Sequences: tokens, tables, pages taken and given back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "seq.h"

int kvslab_seq_open(struct kvslab_seq **out, struct kvslab_kv *kv, const void *salt,
		    size_t salt_size)
{
	struct kvslab_seq *seq;

	if (!out || !kv || (salt_size && !salt))
		return -EINVAL;
	seq = calloc(1, sizeof(*seq));
	if (!seq)
		return -ENOMEM;
	seq->kv = kv;
	hash_root(kv, salt, salt_size, &seq->root);
	*out = seq;
	return 0;
}

void kvslab_seq_close(struct kvslab_seq *seq)
{
	if (!seq)
		return;
	kvslab_seq_release(seq);
	free(seq->tokens);
	free(seq->pages);
	free(seq->hash);
	free(seq->ro);
	free(seq->rw);
	free(seq);
}

uint32_t kvslab_seq_length(const struct kvslab_seq *seq)
{
	return seq->length;
}

uint32_t kvslab_seq_committed(const struct kvslab_seq *seq)
{
	return seq->committed;
}

uint32_t kvslab_seq_allocated(const struct kvslab_seq *seq)
{
	return seq->blocks * seq->kv->geo.page_tokens;
}

uint32_t kvslab_seq_sealed(const struct kvslab_seq *seq)
{
	return seq->sealed * seq->kv->geo.page_tokens;
}

const uint32_t *kvslab_seq_tokens(const struct kvslab_seq *seq)
{
	return seq->tokens;
}

const void *const *kvslab_seq_pages_ro(const struct kvslab_seq *seq, uint32_t group)
{
	if (!seq->ro || group >= seq->kv->geo.groups)
		return NULL;
	return seq->ro + (size_t)group * seq->block_cap;
}

void *const *kvslab_seq_pages_rw(const struct kvslab_seq *seq, uint32_t group)
{
	if (!seq->rw || group >= seq->kv->geo.groups)
		return NULL;
	return seq->rw + (size_t)group * seq->block_cap;
}

int kvslab_seq_append(struct kvslab_seq *seq, const uint32_t *tokens, uint32_t n)
{
	uint64_t want = (uint64_t)seq->length + n, cap = seq->token_cap;
	uint32_t *grown;

	if (!n)
		return 0;
	/* allocated, a multiple of page_tokens, must fit into its type too */
	if (!tokens || want > UINT32_MAX - seq->kv->geo.page_tokens)
		return -EINVAL;
	if (want > cap) {
		cap = cap * 2 > want ? cap * 2 : want;
		cap = cap < 64 ? 64 : cap > UINT32_MAX ? UINT32_MAX : cap;
		grown = realloc(seq->tokens, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		seq->tokens = grown;
		seq->token_cap = (uint32_t)cap;
	}
	memcpy(seq->tokens + seq->length, tokens, n * sizeof(*tokens));
	seq->length = (uint32_t)want;
	return 0;
}

int seq_room(struct kvslab_seq *seq, uint32_t blocks)
{
	uint32_t groups = seq->kv->geo.groups, cap = seq->block_cap, g;
	kvslab_handle *pages;
	struct kvslab_hash *hash;
	const void **ro;
	void **rw;

	if (blocks <= cap)
		return 0;
	cap = cap > UINT32_MAX / 2 || cap * 2 < blocks ? blocks : cap * 2;
	cap = cap < 8 ? 8 : cap;
	pages = calloc(cap, groups * sizeof(*pages));
	hash = calloc(cap, groups * sizeof(*hash));
	ro = calloc(cap, groups * sizeof(*ro));
	rw = calloc(cap, groups * sizeof(*rw));
	if (!pages || !hash || !ro || !rw) {
		free(pages);
		free(hash);
		free(ro);
		free(rw);
		return -ENOMEM;
	}
	if (seq->block_cap) {
		memcpy(pages, seq->pages, (size_t)seq->blocks * groups * sizeof(*pages));
		memcpy(hash, seq->hash, (size_t)seq->hashed * groups * sizeof(*hash));
	}
	for (g = 0; seq->block_cap && g < groups; g++) {
		memcpy(ro + (size_t)g * cap, seq->ro + (size_t)g * seq->block_cap,
		       seq->blocks * sizeof(*ro));
		memcpy(rw + (size_t)g * cap, seq->rw + (size_t)g * seq->block_cap,
		       seq->blocks * sizeof(*rw));
	}
	free(seq->pages);
	free(seq->hash);
	free(seq->ro);
	free(seq->rw);
	seq->pages = pages;
	seq->hash = hash;
	seq->ro = ro;
	seq->rw = rw;
	seq->block_cap = cap;
	return 0;
}

void seq_map(struct kvslab_seq *seq, uint32_t from, uint32_t to)
{
	uint32_t groups = seq->kv->geo.groups, b, g;

	for (b = from; b < to; b++)
		for (g = 0; g < groups; g++) {
			kvslab_handle page = seq->pages[(size_t)b * groups + g];
			size_t at = (size_t)g * seq->block_cap + b;

			seq->ro[at] = kvslab_page_ro(seq->kv->pool, page);
			seq->rw[at] = b < seq->sealed ? NULL : kvslab_page_rw(seq->kv->pool, page);
		}
}

void seq_drop(struct kvslab_seq *seq, uint32_t from)
{
	uint32_t groups = seq->kv->geo.groups;

	if (from < seq->blocks)
		kv_free(seq->kv, seq->pages + (size_t)from * groups,
			(size_t)(seq->blocks - from) * groups);
}

int kvslab_seq_reserve(struct kvslab_seq *seq, uint32_t tokens)
{
	uint32_t pt = seq->kv->geo.page_tokens, groups = seq->kv->geo.groups, want;
	int rc;

	if (tokens > UINT32_MAX - pt)
		return -EINVAL;
	want = (tokens + pt - 1) / pt;
	if (want <= seq->blocks)
		return 0;
	rc = seq_room(seq, want);
	if (rc < 0)
		return rc;
	rc = kv_alloc(seq->kv, seq->pages + (size_t)seq->blocks * groups,
		      (size_t)(want - seq->blocks) * groups);
	if (rc < 0)
		return rc;
	seq_map(seq, seq->blocks, want);
	seq->blocks = want;
	return 0;
}

void kvslab_seq_release(struct kvslab_seq *seq)
{
	seq_drop(seq, 0);
	seq->blocks = 0;
	seq->sealed = 0;
	seq->committed = 0;
}
