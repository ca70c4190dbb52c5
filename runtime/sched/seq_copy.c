// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Truncating and forking: the two calls that may have to copy pages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "seq.h"

/* Private copies of the pages @src[n] into @dst[n]. */
static int copy_pages(struct kvslab_kv *kv, kvslab_handle *dst, const kvslab_handle *src, size_t n)
{
	size_t i;
	int rc = kv_alloc(kv, dst, n);

	if (rc < 0)
		return rc;
	for (i = 0; i < n; i++)
		kv_copy(kv, dst[i], src[i]);
	return 0;
}

/* Make the sealed block @block, the last one, writable again by a copy of its pages. */
static int reopen(struct kvslab_seq *seq, uint32_t block)
{
	uint32_t groups = seq->kv->geo.groups;
	kvslab_handle *pages = seq->pages + (size_t)block * groups, copy[KVSLAB_GROUPS_MAX];
	int rc = copy_pages(seq->kv, copy, pages, groups);

	if (rc < 0)
		return rc;
	kv_free(seq->kv, pages, groups);
	memcpy(pages, copy, groups * sizeof(*pages));
	seq->sealed = block;
	seq_map(seq, block, block + 1);
	return 0;
}

static void cut_blocks(struct kvslab_seq *seq, uint32_t blocks)
{
	seq_drop(seq, blocks);
	if (seq->blocks > blocks)
		seq->blocks = blocks;
	if (seq->sealed > blocks)
		seq->sealed = blocks;
}

int kvslab_seq_truncate(struct kvslab_seq *seq, uint32_t tokens)
{
	uint32_t pt = seq->kv->geo.page_tokens, whole = tokens / pt;

	if (tokens > seq->length)
		return -EINVAL;
	/* The blocks behind go first: their pages may be the room that the copy needs. */
	cut_blocks(seq, whole + (tokens % pt != 0));
	if (seq->sealed > whole && reopen(seq, whole) < 0)
		cut_blocks(seq, whole);
	if (seq->hashed > whole)
		seq->hashed = whole;
	seq->length = tokens;
	if (seq->committed > tokens)
		seq->committed = tokens;
	if (seq->committed > seq->blocks * pt)
		seq->committed = seq->blocks * pt;
	return 0;
}

int seq_fork(struct kvslab_seq *seq, struct kvslab_seq **out, bool shared_only)
{
	struct kvslab_kv *kv = seq->kv;
	uint32_t pt = kv->geo.page_tokens, groups = kv->geo.groups, blocks;
	struct kvslab_seq *child;
	size_t shared;
	int rc;

	rc = kvslab_seq_open(&child, kv, NULL, 0);
	if (rc < 0)
		return rc;
	child->root = seq->root;
	child->priority = seq->priority;
	child->keep_private = seq->keep_private;
	if (!shared_only)
		seq_seal(seq); /* what stays private is copied, so an error costs memory, no more */
	blocks = shared_only ? seq->sealed : (seq->committed + pt - 1) / pt;
	rc = kvslab_seq_append(child, seq->tokens, seq->length);
	if (rc < 0)
		goto fail;
	rc = seq_room(child, blocks > seq->hashed ? blocks : seq->hashed);
	if (rc < 0)
		goto fail;
	if (seq->hashed)
		memcpy(child->hash, seq->hash, (size_t)seq->hashed * groups * sizeof(*seq->hash));
	child->hashed = seq->hashed;
	if (blocks) {
		shared = (size_t)seq->sealed * groups;
		rc = kv_get(kv, seq->pages, shared);
		if (rc < 0)
			goto fail;
		memcpy(child->pages, seq->pages, shared * sizeof(*seq->pages));
		child->blocks = seq->sealed;
		child->sealed = seq->sealed;
		rc = copy_pages(kv, child->pages + shared, seq->pages + shared,
				(size_t)blocks * groups - shared);
		if (rc < 0)
			goto fail;
		child->blocks = blocks;
		seq_map(child, 0, blocks);
		child->committed = shared_only ? seq->sealed * pt : seq->committed;
	}
	*out = child;
	return 0;
fail:
	kvslab_seq_close(child);
	return rc;
}

int kvslab_seq_fork(struct kvslab_seq *seq, struct kvslab_seq **child)
{
	if (!seq || !child)
		return -EINVAL;
	return seq_fork(seq, child, false);
}
