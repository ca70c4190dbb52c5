/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The tokenizer's inside. Everything here is read-only after tok_open. */
#ifndef MODEL_TOK_IMPL_H
#define MODEL_TOK_IMPL_H

#include "tokenizer.h"

#define TOK_NONE UINT32_MAX
#define TOK_VOCAB_MAX (1u << 24)
#define TOK_TEXT_MAX (1u << 28) /* bytes that one tok_encode takes */
#define TOK_PIECE_MAX 65535u /* bytes of a token */
#define TOK_SPECIAL_MAX 256u /* bytes of a token that is looked for in text */

enum tok_family {
	TOK_BPE, /* byte-level: bytes as printable characters, merges by rank */
	TOK_SPM, /* SentencePiece: characters, merges by score, bytes as the last resort */
};

/* GGUF's tokenizer.ggml.token_type */
enum tok_type {
	TOK_TYPE_UNDEFINED,
	TOK_TYPE_NORMAL,
	TOK_TYPE_UNKNOWN,
	TOK_TYPE_CONTROL,
	TOK_TYPE_USER,
	TOK_TYPE_UNUSED,
	TOK_TYPE_BYTE,
};

/* Strings numbered in the order of adding, found by a keyed hash that no file can make collide. */
struct tok_strings {
	uint32_t n, cap;
	uint32_t *at; /* [n + 1] offsets into text */
	char *text;
	uint32_t used, text_cap;
	uint32_t *slot; /* number + 1, 0: free */
	uint32_t mask;
	uint8_t key[16];
};

int tok_strings_init(struct tok_strings *s);
void tok_strings_free(struct tok_strings *s);
/* *id is that of the equal string that is there (1) or the new one's (0). Empty strings are never
 * found. -ENOMEM; -EFBIG: more text or strings than 32 bits count. */
int tok_strings_add(struct tok_strings *s, const char *text, uint64_t n, uint32_t *id);
uint32_t tok_strings_find(const struct tok_strings *s, const char *text, uint64_t n);
struct gguf_str tok_strings_get(const struct tok_strings *s, uint32_t id);

struct tok_pair { /* of a merge */
	uint64_t both; /* left << 32 | right */
	uint32_t rank, result;
};

struct tok_split; /* the pre-tokenizer */

struct tokenizer {
	enum tok_family family;
	uint32_t n;
	/* [n] tokens by id as the file has them; after them, strings that only merges name */
	struct tok_strings strings;
	uint32_t longest; /* bytes of the longest token's text */
	uint8_t *type; /* [n] enum tok_type */
	/* [n + 1] offsets of the bytes that tokens stand for */
	uint32_t *piece_at;
	char *piece;
	size_t piece_max;
	int64_t bos, eos, unk;
	bool add_bos, add_eos, add_space;
	uint32_t *stops;
	size_t n_stops;

	/* tokens looked for in text: by length (longest first, then id), and by text with where
	 * each first byte starts */
	uint32_t *special, n_special;
	uint32_t *special_sorted, special_first[257];

	/* BPE */
	struct tok_split *split;
	uint32_t byte_char[256]; /* the string that a byte is at first */
	struct tok_pair *pairs; /* open addressing */
	uint32_t pair_mask;
	uint64_t pair_key;

	/* SPM */
	uint32_t *score_rank; /* [n] 0 the highest score; equal scores have equal ranks */
	uint32_t byte_token[256]; /* TOK_NONE where the file has none */
};

/* Whether @id may come out of merging or is a piece of text at all. */
static inline bool tok_is_text(const struct tokenizer *t, uint32_t id)
{
	return t->type[id] != TOK_TYPE_UNKNOWN && t->type[id] != TOK_TYPE_CONTROL &&
	       t->type[id] != TOK_TYPE_BYTE;
}

/* Parts of tok_open; each frees nothing on error, tok_close does. */
int tok_load_bpe(struct tokenizer *t, const struct gguf *g, struct model_error *e);
int tok_load_spm(struct tokenizer *t, const struct gguf *g, struct model_error *e);
int tok_load_special(struct tokenizer *t);
int tok_load_stops(struct tokenizer *t, const struct gguf *g, struct model_error *e);
/* A token id of the file's: 0 and *id (-1 where it says none), or an error. *id stays where the key
 * is absent. */
int tok_load_id(const struct tokenizer *t, const struct gguf *g, const char *key, int64_t *id,
		struct model_error *e);

/* Text between special tokens, and they. */
struct tok_fragment {
	uint32_t at, n; /* of the text */
	uint32_t id; /* or TOK_NONE: text */
};

/* *fragments is the caller's to free. */
int tok_partition(const struct tokenizer *t, const char *text, uint32_t n, unsigned int flags,
		  struct tok_fragment **fragments, size_t *n_fragments);

/* A chain of symbols that merging makes shorter. */
struct tok_symbol {
	uint32_t at, n; /* bytes of the text; n is 0 once it went into its left neighbour */
	uint32_t prev, next; /* TOK_NONE at the ends */
	uint32_t id; /* what it is; the family's own meaning */
};

struct tok_merge {
	struct tok_symbol *symbol;
	uint32_t n, cap;
	struct tok_candidate *heap;
	size_t n_heap, cap_heap;
	uint64_t steps; /* heap moves since the start, for tests of the cost */
};

/* What two neighbours would become: true with *rank (the lowest merges first) and *id. */
typedef bool (*tok_pair_fn)(const struct tokenizer *t, const char *text, const struct tok_symbol *a,
			    const struct tok_symbol *b, uint32_t *rank, uint32_t *id);

int tok_merge_add(struct tok_merge *m, uint32_t at, uint32_t n, uint32_t id); /* the next symbol */
/* Merges until nothing can be: lowest rank first, leftmost among equals. n log n in the symbols. */
int tok_merge_run(struct tok_merge *m, const struct tokenizer *t, const char *text,
		  tok_pair_fn pair);
void tok_merge_free(struct tok_merge *m);

int tok_encode_bpe(const struct tokenizer *t, struct tok_merge *m, const char *text, uint32_t n,
		   struct tok_ids *ids);
int tok_encode_spm(const struct tokenizer *t, struct tok_merge *m, const char *text, uint32_t n,
		   bool prefix, struct tok_ids *ids);

/* Pre-tokenizers by the file's name for them. -EOPNOTSUPP: not known. */
int tok_split_open(struct tok_split **s, struct gguf_str name, struct model_error *e);
void tok_split_close(struct tok_split *s);
extern const char *const tok_split_names; /* for messages */
#define TOK_SPLIT_WHOLE (1u << 0) /* a word that is a token is that token, whatever merges give */
#define TOK_SPLIT_BOS (1u << 1) /* texts begin with BOS unless the file says otherwise */
unsigned int tok_split_traits(const struct tok_split *s);
/* Calls word() for each word of valid UTF-8 text, in order; stops at its first error. */
typedef int (*tok_word_fn)(void *arg, const char *word, uint32_t n);
int tok_split_run(const struct tok_split *s, const char *text, uint32_t n, tok_word_fn word,
		  void *arg);

/* The character that stands for a byte in byte-level BPE, and back (-1). */
uint32_t tok_byte_char(uint8_t b);
int tok_char_byte(uint32_t cp);

#endif
