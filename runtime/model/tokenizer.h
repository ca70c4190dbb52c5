/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Text to token ids and back: byte-level BPE ("gpt2") and SentencePiece-style BPE with byte fallback ("llama").
 * Read-only once open: any number of threads. Input is bytes; invalid UTF-8 is no error: byte-level BPE takes each
 * byte that is part of no well-formed character as U+FFFD (overlong forms and surrogates are not well-formed, where
 * the peer lets them pass), the other family keeps the bytes.
 * What comes back is what went in, but for U+2581, which SentencePiece uses for the space and gives back as one, and
 * for bytes that a byte-level vocabulary lacks (a few control characters in real ones), which are left out.
 */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include "gguf.h"

struct tokenizer;

/* Control and unknown tokens written in the text become their ids. Without it their text is text. User-defined tokens
 * are looked for always: they are ordinary text that the model sees as one token. The longest token is placed first. */
#define TOK_SPECIAL (1u << 0)
#define TOK_BOS (1u << 1) /* add BOS (and EOS) where the file says so */
/* A chat's message: user-defined tokens that look like a turn's mark (<|...|>, <start_of_turn>, [INST] and their like)
 * stay text too. Some files give their marks that type. */
#define TOK_MESSAGE (1u << 2)

struct tok_ids {
	uint32_t *id;
	size_t n, cap;
};

/* Keeps its own copies: the file may be closed. -EOPNOTSUPP: a tokenizer or pre-tokenizer that we do not have, and the
 * sentence lists those that we do; -EBADMSG: lists that are missing, too short or contradict each other; -ENOMEM. */
int tok_open(struct tokenizer **t, const struct gguf *g, struct model_error *e);
void tok_close(struct tokenizer *t);

/* Appends to @ids (zero-initialised by the caller, freed with tok_ids_free); they stay as they were on an error.
 * -ENOMEM; -EFBIG: more than 256 MiB of text. A word of n bytes costs n log n. */
int tok_encode(const struct tokenizer *t, const char *text, size_t n, unsigned int flags, struct tok_ids *ids);
int tok_append(struct tok_ids *ids, uint32_t id); /* -ENOMEM */
void tok_ids_free(struct tok_ids *ids);

uint32_t tok_vocab(const struct tokenizer *t);
/* The bytes that @id stands for; owned by the tokenizer, not terminated. Special (control) tokens give their text only
 * with @special, else nothing. */
struct gguf_str tok_piece(const struct tokenizer *t, uint32_t id, bool special);
/* -1 where the file has none. */
int64_t tok_bos(const struct tokenizer *t);
int64_t tok_eos(const struct tokenizer *t);
int64_t tok_find(const struct tokenizer *t, const char *text, size_t n); /* the id whose text this is exactly */
/* Ids that end an answer: eos, eot and their like, ascending. Owned by the tokenizer. */
const uint32_t *tok_stops(const struct tokenizer *t, size_t *n);

/*
 * Streaming: feed ids one by one, get the bytes that are complete UTF-8 characters; what may still become one is held
 * back; bytes that never can are given out as U+FFFD, one for each run that began a character. First piece of
 * SentencePiece models: the leading space goes, since encoding put it there; for text that goes on from a prompt, set
 * started after tok_stream_init, and it stays.
 */
struct tok_stream {
	const struct tokenizer *t;
	bool started;
	uint8_t held[4];
	uint8_t n_held;
};

void tok_stream_init(struct tok_stream *s, const struct tokenizer *t);
/* Appends to out, which has room for 3 * piece length + 16 bytes; returns bytes. */
size_t tok_stream_next(struct tok_stream *s, uint32_t id, char *out);
size_t tok_stream_end(struct tok_stream *s, char *out);
/* The longest piece, for sizing that buffer. */
size_t tok_piece_max(const struct tokenizer *t);

#endif
