/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Tokenizers for tests: where the real files are, and small ones made in memory. */
#ifndef TEST_VOCAB_H
#define TEST_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "gguf_write.h"

/* The real model: $KVSLAB_TEST_MODEL, or in the cache folder; the tiny one: $KVSLAB_TEST_TINY, or
 * in ../shared/models. NULL where there is none; else to be freed. */
char *vocab_real_path(void);
char *vocab_tiny_path(void);
/* A vocabulary that scripts/get-vocabs.sh fetches: in $KVSLAB_TEST_VOCABS, or in the cache folder. */
char *vocab_path(const char *name);

/* Byte-level BPE's character for a byte, in UTF-8, terminated. */
void vocab_byte_text(unsigned int b, char *s);

/* Keys of a byte-level tokenizer of all bytes and all pairs of bytes, as
 * tests/peer/record_tokens.py makes it. */
void vocab_pairs(struct gguf_write *w, const char *pre);
/* A small byte-level one: bytes, a few merges, control and user-defined tokens. */
void vocab_bpe(struct gguf_write *w, const char *pre);
/* A small SentencePiece-style one; with or without its 256 byte tokens. */
void vocab_spm(struct gguf_write *w, bool bytes);

/* Ids of the tokens that the two small ones share, and of others of theirs. */
enum {
	BPE_END = 256, /* <|endoftext|>, control */
	BPE_IM_START, /* control */
	BPE_IM_END, /* control; eos */
	BPE_USER, /* "[user]", user-defined */
	BPE_LONG, /* "<|im_start|>x", control */
	BPE_MERGED, /* the first token that a merge makes */
};

enum {
	SPM_UNK,
	SPM_BOS,
	SPM_EOS,
	SPM_BYTES, /* <0x00>, or the first piece */
};

#endif
