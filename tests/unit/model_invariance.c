// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * What a sequence gives depends on its own tokens alone: the bits of its logits, the tokens drawn and their log
 * probabilities are the same alone in plain C and in any batch, chunking, page size, number of threads, kernels,
 * after a prefix hit and after preemptions. For every model of `make models`, f16 and f32 KV, greedy and sampled.
 * Settings are drawn; KVSLAB_LONG draws more.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/model_sched.h"
#include "tests/lib/model_util.h"
#include "tests/lib/tap.h"

#if defined(__SANITIZE_ADDRESS__)
#define SMALL 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMALL 1
#endif
#endif
#ifndef SMALL
#define SMALL 0
#endif

#define BATCH 16
#define N_PAGES 6

static const uint32_t page_sizes[N_PAGES] = { 1, 7, 15, 16, 33, 0 };
static const char *const all_kernels[] = { "c", "avx2", "avxvnni", "avx512" };
static const char *kernels[3]; /* those that this machine has */
static uint32_t n_kernels, n_variants;
static uint64_t seed;

/* How often each setting was drawn; at the end none may be 0 (page sizes: where there are variants enough). */
static uint32_t drawn_pages[N_PAGES], drawn_kernels[3], drawn_threads[3], drawn_batch, drawn_hits, drawn_chunks, drawn_preempted;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(rnd(&seed) % n);
}

static uint32_t between(uint32_t lo, uint32_t hi)
{
	return lo + below(hi - lo + 1);
}

static void shuffled_pages(uint32_t order[N_PAGES])
{
	for (uint32_t i = 0; i < N_PAGES; i++) {
		uint32_t k = below(i + 1);

		order[i] = order[k];
		order[k] = i;
	}
}

static const uint32_t bias_tokens[] = { 7, 3, 11 };
static const float bias[] = { 2.5f, -4, 1.25f };

static struct kvslab_sampling any_sampling(bool greedy)
{
	struct kvslab_sampling s = { .seed = rnd(&seed) };

	if (greedy)
		return s;
	s.temperature = 0.3f + (float)below(100) / 60;
	s.top_k = below(2) ? between(1, 60) : 0;
	s.top_p = below(2) ? 0.5f + (float)below(50) / 100 : 0;
	s.min_p = below(2) ? (float)below(100) / 1000 : 0;
	if (below(2)) {
		s.repetition_penalty = 0.8f + (float)below(80) / 100;
		s.presence_penalty = (float)below(20) / 10 - 1;
		s.frequency_penalty = (float)below(20) / 10 - 1;
	}
	if (below(2)) {
		s.bias_tokens = bias_tokens;
		s.bias = bias;
		s.n_bias = 3;
	}
	return s;
}

static struct mu_opts any_engine(enum kvslab_kv_type kv_type, uint32_t page)
{
	/* Plain C is what takes the time; all bases by hand are of it too. */
	uint32_t k = n_kernels == 1 || !below(5) ? 0 : between(1, n_kernels - 1), threads = between(1, 2);

	drawn_pages[page]++;
	drawn_kernels[k]++;
	drawn_threads[threads]++;
	return (struct mu_opts){
		.kv_type = kv_type, .page_tokens = page_sizes[page], .threads = threads, .kernels = kernels[k],
		.max_rows = below(2) ? 0 : between(20, 100),
	};
}

/* What all others are compared with: plain C, one thread, alone, at once. */
static struct mu_opts plain_engine(enum kvslab_kv_type kv_type)
{
	return (struct mu_opts){ .kv_type = kv_type, .page_tokens = 16, .threads = 1, .kernels = "c" };
}

/* ---- by hand: logits of every position ---- */

struct answer {
	float *logits; /* [n][vocab] */
	int32_t *drawn;
	float *logprob;
};

static struct answer answer_new(uint32_t n, uint32_t vocab)
{
	return (struct answer){
		.logits = mu_alloc((size_t)n * vocab, sizeof(float)),
		.drawn = mu_alloc(n, sizeof(int32_t)),
		.logprob = mu_alloc(n, sizeof(float)),
	};
}

static void answer_free(struct answer *a)
{
	free(a->logits);
	free(a->drawn);
	free(a->logprob);
}

static struct mu_stream stream_for(const uint32_t *ids, uint32_t n, const struct kvslab_sampling *s, struct answer *a)
{
	return (struct mu_stream){
		.ids = ids, .n = n, .sampling = *s, .logits = a->logits, .drawn = a->drawn, .logprob = a->logprob
	};
}

/* Positions [from, n) are the same to the bit. */
static bool same_answer(const struct answer *a, const struct answer *b, uint32_t from, uint32_t n, uint32_t vocab)
{
	for (uint32_t i = from; i < n; i++) {
		if (memcmp(a->logits + (size_t)i * vocab, b->logits + (size_t)i * vocab, vocab * sizeof(float)) ||
		    a->drawn[i] != b->drawn[i] || memcmp(&a->logprob[i], &b->logprob[i], sizeof(float))) {
			printf("# differs at position %u of %u\n", i, n);
			return false;
		}
	}
	return true;
}

/* Streams 1 .. n-1: others, some with the beginning of the first one's ids. */
static void others(struct mu_stream *s, uint32_t n, const struct mu_model *mm)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t len = between(1, 40), common = below(4) ? 0 : below(len + 1);
		uint32_t *ids = mu_alloc(len, sizeof(*ids));

		mu_random_ids(ids, len, mm->m->vocab, &seed);
		memcpy(ids, s[0].ids, (common < s[0].n ? common : s[0].n) * sizeof(*ids));
		s[i] = (struct mu_stream){ .ids = ids, .n = len, .chunk = between(1, 40), .match = below(2) };
	}
}

/* Run a sequence that shares the first @common ids, so that a later one finds them. */
static void leave_prefix(struct mu_engine *e, const struct mu_stream *s, uint32_t common)
{
	uint32_t *ids = mu_alloc(s->n, sizeof(*ids));
	struct mu_stream before = { .ids = ids, .n = s->n, .chunk = between(1, s->n) };

	memcpy(ids, s->ids, s->n * sizeof(*ids));
	for (uint32_t i = common; i < s->n; i++)
		ids[i] = (ids[i] + 1) % e->m->vocab;
	mu_run(e, &before, 1);
	kvslab_seq_close(before.seq);
	free(ids);
}

static bool one_variant(const struct mu_model *mm, enum kvslab_kv_type kv_type, uint32_t page, const struct mu_stream *base,
			const struct answer *want)
{
	struct mu_opts opts = any_engine(kv_type, page);
	struct answer got = answer_new(base->n, mm->m->vocab);
	struct mu_stream s[BATCH] = { *base };
	uint32_t n = below(3) ? 1 : below(2) ? BATCH : between(2, BATCH), common = 0, tokens, from;
	struct mu_engine e;
	bool good;

	s[0] = stream_for(base->ids, base->n, &base->sampling, &got);
	s[0].chunk = below(4) ? between(1, base->n) : 1;
	others(s, n, mm);
	mu_engine_open(&e, mm, &opts);
	tokens = kvslab_kv_geometry(e.kv)->page_tokens;
	if (below(2)) {
		common = below(3) ? between(1, base->n) : base->n;
		leave_prefix(&e, &s[0], common);
		s[0].match = true;
	}
	mu_run(&e, s, n);
	from = s[0].found == base->n ? base->n - 1 : s[0].found;
	good = same_answer(want, &got, from, base->n, mm->m->vocab);
	if (s[0].found != common / tokens * tokens) {
		printf("# %u tokens are known, in pages of %u; %u were found\n", common, tokens, s[0].found);
		good = false;
	}
	drawn_batch += n == BATCH;
	drawn_hits += s[0].found > 0;
	drawn_chunks += s[0].chunk < base->n;
	for (uint32_t i = 0; i < n; i++) {
		kvslab_seq_close(s[i].seq);
		if (i)
			free((void *)s[i].ids);
	}
	good &= mu_engine_close(&e);
	if (!good)
		printf("# pages of %u tokens, %s, %u threads, chunk %u, batch of %u, %u rows, %u tokens known\n",
		       opts.page_tokens, opts.kernels, opts.threads, s[0].chunk, n, opts.max_rows, common);
	answer_free(&got);
	return good;
}

static bool by_hand(const struct mu_model *mm, enum kvslab_kv_type kv_type)
{
	uint32_t n = SMALL ? between(35, 70) : between(70, 130), order[N_PAGES];
	uint32_t *ids = mu_alloc(n, sizeof(*ids));
	struct kvslab_sampling sampling = any_sampling(below(2));
	struct answer want = answer_new(n, mm->m->vocab);
	struct mu_opts opts = plain_engine(kv_type);
	struct mu_stream base;
	struct mu_engine e;
	bool good = true;

	mu_random_ids(ids, n, mm->m->vocab, &seed);
	base = stream_for(ids, n, &sampling, &want);
	mu_engine_open(&e, mm, &opts);
	mu_run(&e, &base, 1);
	kvslab_seq_close(base.seq);
	good &= mu_engine_close(&e);
	shuffled_pages(order);
	for (uint32_t v = 0; v < n_variants; v++)
		good &= one_variant(mm, kv_type, order[v % N_PAGES], &base, &want);
	answer_free(&want);
	free(ids);
	return good;
}

/* ---- through the scheduler: tokens and log probabilities ---- */

/* A page size with which one extent holds the longest request, but not much more than half of all; else 1 token. */
static uint32_t tight_page(const struct mu_model *mm, enum kvslab_kv_type kv_type, const struct ms_request *rs, uint32_t n)
{
	uint32_t order[N_PAGES], longest = 0, all = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = rs[i].n_prompt + rs[i].max_tokens;

		longest = len > longest ? len : longest;
		all += len;
	}
	shuffled_pages(order);
	for (uint32_t i = 0; i < N_PAGES; i++) {
		struct kvslab_geometry g = {
			.layers = mm->m->n_layers, .kv_heads = mm->m->n_kv_heads, .head_dim = mm->m->head_dim,
			.kv_type = kv_type, .page_tokens = page_sizes[order[i]],
		};
		uint32_t room;

		if (kvslab_geometry_init(&g))
			continue;
		room = g.pages_per_slab / g.groups * g.page_tokens;
		if (room >= longest + g.page_tokens && room < all * 6 / 10)
			return order[i];
	}
	return 0;
}

static void any_requests(struct ms_request *rs, uint32_t n, const struct mu_model *mm)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = between(2, 60), *ids = mu_alloc(len, sizeof(*ids));

		mu_random_ids(ids, len, mm->m->vocab, &seed);
		/* A third begin like the one before. */
		if (i && !below(3))
			memcpy(ids, rs[i - 1].prompt, (len < rs[i - 1].n_prompt ? len : rs[i - 1].n_prompt) * sizeof(*ids));
		rs[i] = (struct ms_request){
			.prompt = ids, .n_prompt = len, .max_tokens = between(30, 70),
			.sampling = any_sampling(i % 2), .priority = (uint8_t)below(3),
		};
	}
}

/* The answers once more without a scheduler: each token is what its row draws, given all before it. */
static bool teacher_agrees(struct mu_engine *e, const struct ms_request *r)
{
	uint32_t n = r->n_prompt + r->n_tokens - 1;
	uint32_t *ids = mu_alloc(n, sizeof(*ids));
	struct answer a = answer_new(n, e->m->vocab);
	struct mu_stream s;
	bool good;

	memcpy(ids, r->prompt, r->n_prompt * sizeof(*ids));
	memcpy(ids + r->n_prompt, r->tokens, (r->n_tokens - 1) * sizeof(*ids));
	s = stream_for(ids, n, &r->sampling, &a);
	s.n_prompt = r->n_prompt;
	mu_run(e, &s, 1);
	kvslab_seq_close(s.seq);
	good = !memcmp(a.drawn + r->n_prompt - 1, r->tokens, r->n_tokens * sizeof(*r->tokens)) &&
	       !memcmp(a.logprob + r->n_prompt - 1, r->logprob, r->n_tokens * sizeof(*r->logprob));
	if (!good)
		printf("# the scheduler's answer is not what its rows draw\n");
	answer_free(&a);
	free(ids);
	return good;
}

static bool sched_variant(const struct mu_model *mm, struct mu_opts *opts, const struct ms_request *want, uint32_t n,
			  uint32_t max_batch, uint64_t *preemptions)
{
	struct ms_request got[BATCH];
	struct ms_opts so = {
		.max_batch = max_batch, .step_tokens = between(BATCH, 200), .chunk_tokens = below(2) ? between(1, 50) : 0,
		.no_prefix = below(2), .cancelled = below(3), .seed = &seed,
	};
	struct mu_engine e;
	bool good;

	ms_copy(got, want, n);
	opts->max_rows = 0; /* of a step: step_tokens says */
	mu_engine_open(&e, mm, opts);
	good = ms_run(&e, &so, got, n);
	*preemptions += so.preemptions;
	good &= mu_engine_close(&e);
	good &= ms_same(want, got, n);
	if (!good)
		printf("# pages of %u tokens, %s, %u threads, pool of %u KiB, batch of %u, steps of %u, chunks of %u%s\n",
		       opts->page_tokens, opts->kernels, opts->threads, (unsigned int)(opts->pool_bytes >> 10), so.max_batch,
		       so.step_tokens, so.chunk_tokens, so.no_prefix ? ", no prefixes" : "");
	ms_free_answers(got, n);
	return good;
}

static bool by_scheduler(const struct mu_model *mm, enum kvslab_kv_type kv_type)
{
	uint32_t n = SMALL ? 12 : BATCH, order[N_PAGES], page;
	struct ms_request want[BATCH] = { { 0 } };
	struct ms_opts alone = { .max_batch = 1, .step_tokens = 512, .no_prefix = true };
	struct mu_opts opts = plain_engine(kv_type);
	uint64_t preemptions;
	struct mu_engine e;
	bool good;

	any_requests(want, n, mm);
	opts.kernels = NULL;
	mu_engine_open(&e, mm, &opts);
	good = ms_run(&e, &alone, want, n);
	for (uint32_t i = 0; i < n && good; i += 5)
		good &= teacher_agrees(&e, &want[i]);
	good &= mu_engine_close(&e);
	shuffled_pages(order);
	for (uint32_t v = 0; v < n_variants / 6 + SMALL; v++) {
		opts = any_engine(kv_type, order[v % N_PAGES]);
		good &= sched_variant(mm, &opts, want, n, between(2, n), &preemptions);
	}
	page = tight_page(mm, kv_type, want, n);
	preemptions = 0;
	for (uint32_t v = 0; v < 8 && (v < n_variants / 6 || !preemptions); v++) {
		opts = any_engine(kv_type, page);
		opts.pool_bytes = KVSLAB_EXTENT_SIZE;
		good &= sched_variant(mm, &opts, want, n, n, &preemptions);
	}
	drawn_preempted += preemptions > 0;
	if (!preemptions) {
		printf("# nothing was preempted\n");
		good = false;
	}
	ms_free_answers(want, n);
	for (uint32_t i = 0; i < n; i++)
		free((void *)want[i].prompt);
	return good;
}

static bool all_drawn(void)
{
	bool good = drawn_batch && drawn_hits && drawn_chunks && drawn_preempted && drawn_threads[1] && drawn_threads[2];

	for (uint32_t i = 0; i < N_PAGES && n_variants >= N_PAGES; i++)
		good &= drawn_pages[i] > 0;
	for (uint32_t i = 0; i < n_kernels; i++)
		good &= drawn_kernels[i] > 0;
	return good;
}

int main(int argc, char **argv)
{
	static const struct {
		enum kvslab_kv_type type;
		const char *name;
	} kv[] = { { KVSLAB_KV_F16, "f16" }, { KVSLAB_KV_F32, "f32" } };
	uint64_t first;
	const char *folder = getenv("KVSLAB_TEST_MODELS");
	char pattern[4096];
	glob_t files;

	first = seed = tap_seed(argc, argv);
	snprintf(pattern, sizeof(pattern), "%s/*.gguf", folder ? folder : "build/models");
	if (glob(pattern, 0, NULL, &files))
		skip_all("no test models: run make models, and this from the repository's root");
	n_variants = getenv("KVSLAB_LONG") ? 48 : SMALL ? 2 : N_PAGES;
	for (uint32_t i = 0; i < 3; i++)
		if (kern_ops_get(all_kernels[i]))
			kernels[n_kernels++] = all_kernels[i];
	for (size_t i = 0; i < files.gl_pathc; i++) {
		const char *name = strrchr(files.gl_pathv[i], '/') + 1;
		struct mu_model mm;

		mu_model_open(&mm, files.gl_pathv[i]);
		for (uint32_t k = 0; k < 2; k++) {
			/* Under a sanitizer each model with one of the two. */
			if (SMALL && (i + k + first) % 2)
				continue;
			ok(by_hand(&mm, kv[k].type), "%s, kv %s: logits and draws by hand", name, kv[k].name);
			ok(by_scheduler(&mm, kv[k].type), "%s, kv %s: answers of the scheduler", name, kv[k].name);
		}
		mu_model_close(&mm);
	}
	ok(all_drawn(), "every setting was drawn");
	globfree(&files);
	return done();
}
