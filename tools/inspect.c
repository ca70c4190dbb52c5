// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab inspect: what a model file is, and whether and how it would run. No weight is read. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "engine.h"
#include "msg.h"

#define TYPES_MAX 64 /* by GGUF's number; all others count as one */
#define WHYS 4

enum {
	KEY_JSON = 0x100,
	KEY_KV_TYPE,
	KEY_PAGE_TOKENS,
	KEY_POOL,
};

struct inspect {
	const char *path;
	enum kvslab_kv_type kv_type;
	uint32_t page_tokens;
	uint64_t pool; /* bytes */
	bool json;

	struct gguf g;
	struct model shape;
	struct tokenizer *tok;
	struct chat_template *chat;
	struct kvslab_geometry geometry;
	struct model_error no_shape, no_types, no_tok, no_chat, no_pages; /* empty: there is one */
	struct {
		uint64_t n, bytes, values;
	} type[TYPES_MAX + 1];
	uint64_t bytes, values; /* of all tensors */
};

static const struct argp_option options[] = {
	{ "model", 'm', "MODEL", 0, "The model, a GGUF file; the same as naming it alone (required)", 0 },
	{ "json", KEY_JSON, 0, 0, "Print a JSON object (default: text)", 0 },
	{ "kv-type", KEY_KV_TYPE, "TYPE", 0, "Pages with keys and values as f16 or f32 (default: f16)", 0 },
	{ "page-tokens", KEY_PAGE_TOKENS, "N", 0,
	  "Tokens in a page, or auto: the count that wastes least (default: auto)", 0 },
	{ "pool", KEY_POOL, "SIZE", 0, "Tell how many tokens a pool of this size holds (default: 1G)", 0 },
	{ 0 }
};

static void take_path(struct inspect *o, const char *arg)
{
	if (o->path)
		die("two models are given (%s, %s); inspect one at a time", o->path, arg);
	o->path = arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const kv_types[] = { "f16", "f32", NULL };
	struct inspect *o = state->input;

	switch (key) {
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_KV_TYPE:
		o->kv_type = arg_word("--kv-type", arg, kv_types) ? KVSLAB_KV_F32 : KVSLAB_KV_F16;
		return 0;
	case KEY_PAGE_TOKENS:
		o->page_tokens = strcmp(arg, "auto") ?
			(uint32_t)arg_u64("--page-tokens", arg, 1, MAX_PAGE_TOKENS) : 0;
		return 0;
	case KEY_POOL:
		o->pool = arg_size("--pool", arg);
		return 0;
	case 'm':
	case ARGP_KEY_ARG:
		take_path(o, arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->path)
			die("no model is given; name a GGUF file");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = { options, parse, "MODEL",
				  "Print what a model file is: its tensors, tokenizer and chat template, whether it runs "
				  "here, its pages and what a pool of them holds.",
				  NULL, NULL, NULL };

static void count_tensors(struct inspect *o)
{
	const struct gguf_tensor *t;
	uint64_t i, values, k;

	for (i = 0; i < o->g.n_tensors; i++) {
		t = &o->g.tensors[i];
		k = t->type < TYPES_MAX ? t->type : TYPES_MAX;
		values = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
		o->type[k].n++;
		o->type[k].bytes += t->size;
		o->type[k].values += values;
		o->bytes += t->size;
		o->values += values;
		if (!kern_type_supported(t->type) && !o->no_types.text[0])
			model_fail(&o->no_types, -EOPNOTSUPP,
				   "tensor '%.*s' has type %s, which is not supported; supported are: " KERN_TYPES,
				   (int)(t->name.n < 80 ? t->name.n : 80), t->name.s, gguf_type_name(t->type));
	}
	if (!o->g.n_tensors)
		model_fail(&o->no_types, -EOPNOTSUPP, "the file has no tensors, a vocabulary alone");
}

static void find_pages(struct inspect *o)
{
	struct kvslab_geometry *g = &o->geometry;
	int err;

	g->layers = o->shape.n_layers;
	g->kv_heads = o->shape.n_kv_heads;
	g->head_dim = o->shape.head_dim;
	g->kv_type = o->kv_type;
	g->page_tokens = o->page_tokens;
	err = o->no_shape.text[0] ? -EINVAL : kvslab_geometry_init(g);
	if (o->no_shape.text[0])
		snprintf(o->no_pages.text, sizeof(o->no_pages.text), "not known without the model's shape");
	else if (err)
		snprintf(o->no_pages.text, sizeof(o->no_pages.text), "%u layers, %u KV heads of %u fit no page: %s",
			 g->layers, g->kv_heads, g->head_dim, kvslab_strerror(err));
}

static bool runs(const struct inspect *o)
{
	return !o->no_shape.text[0] && !o->no_types.text[0] && !o->no_tok.text[0] && !o->no_pages.text[0];
}

static uint64_t pool_tokens(const struct inspect *o, uint64_t bytes)
{
	const struct kvslab_geometry *g = &o->geometry;

	return bytes / KVSLAB_EXTENT_SIZE * g->pages_per_slab / g->groups * g->page_tokens;
}

static struct gguf_str text_of(const struct inspect *o, const char *key)
{
	struct gguf_str s = { "", 0 };

	gguf_string(&o->g, key, &s);
	return s;
}

static json_t *str_or_null(struct gguf_str s)
{
	return s.n ? json_bytes(s.s, s.n) : json_null();
}

static json_t *error_or_null(const struct model_error *e)
{
	return e->text[0] ? json_bytes(e->text, strlen(e->text)) : json_null();
}

static void set(json_t *o, const char *key, uint64_t n)
{
	json_object_set_new(o, key, json_integer((json_int_t)n));
}

static const char *type_name(uint32_t k)
{
	return k < TYPES_MAX ? gguf_type_name(k) : "unknown";
}

static json_t *tensors_json(const struct inspect *o)
{
	json_t *list = json_array(), *t;
	uint32_t k;

	for (k = 0; k <= TYPES_MAX; k++) {
		if (!o->type[k].n)
			continue;
		t = json_object();
		json_object_set_new(t, "type", json_string(type_name(k)));
		json_object_set_new(t, "supported", json_boolean(k < TYPES_MAX && kern_type_supported(k)));
		set(t, "tensors", o->type[k].n);
		set(t, "values", o->type[k].values);
		set(t, "bytes", o->type[k].bytes);
		json_array_append_new(list, t);
	}
	return list;
}

static json_t *shape_json(const struct inspect *o)
{
	const struct model *m = &o->shape;
	json_t *j = json_object();

	if (o->no_shape.text[0]) {
		json_decref(j);
		return json_null();
	}
	set(j, "layers", m->n_layers);
	set(j, "width", m->dim);
	set(j, "heads", m->n_heads);
	set(j, "kv_heads", m->n_kv_heads);
	set(j, "head_dim", m->head_dim);
	set(j, "context", m->context);
	set(j, "vocabulary", m->vocab);
	return j;
}

static json_t *tok_json(const struct inspect *o)
{
	json_t *j = json_object(), *list = json_array();
	const uint32_t *stops;
	size_t n = 0, i;

	json_object_set_new(j, "model", str_or_null(text_of(o, "tokenizer.ggml.model")));
	json_object_set_new(j, "pre", str_or_null(text_of(o, "tokenizer.ggml.pre")));
	json_object_set_new(j, "problem", error_or_null(&o->no_tok));
	if (o->tok) {
		set(j, "tokens", tok_vocab(o->tok));
		json_object_set_new(j, "bos", json_integer((json_int_t)tok_bos(o->tok)));
		json_object_set_new(j, "eos", json_integer((json_int_t)tok_eos(o->tok)));
		stops = tok_stops(o->tok, &n);
		for (i = 0; i < n; i++)
			json_array_append_new(list, json_integer((json_int_t)stops[i]));
	}
	json_object_set_new(j, "stops", list);
	return j;
}

static json_t *pages_json(const struct inspect *o)
{
	const struct kvslab_geometry *g = &o->geometry;
	json_t *j = json_object();

	if (o->no_pages.text[0]) {
		json_object_set_new(j, "problem", error_or_null(&o->no_pages));
		return j;
	}
	json_object_set_new(j, "problem", json_null());
	set(j, "token_bytes", g->token_bytes);
	set(j, "page_tokens", g->page_tokens);
	set(j, "page_bytes", g->page_size);
	set(j, "groups", g->groups);
	set(j, "pages_per_extent", g->pages_per_slab);
	json_object_set_new(j, "waste", json_number(g->waste));
	set(j, "pool_bytes", o->pool);
	set(j, "pool_tokens", pool_tokens(o, o->pool));
	return j;
}

static int print_json(const struct inspect *o)
{
	json_t *j = json_object(), *chat = json_object();

	json_object_set_new(j, "file", json_bytes(o->path, strlen(o->path)));
	json_object_set_new(j, "runs", json_boolean(runs(o)));
	set(j, "gguf_version", o->g.version);
	set(j, "files", 1 + (uint64_t)o->g.n_more);
	json_object_set_new(j, "name", str_or_null(text_of(o, "general.name")));
	json_object_set_new(j, "architecture", str_or_null(text_of(o, "general.architecture")));
	json_object_set_new(j, "shape", shape_json(o));
	json_object_set_new(j, "shape_problem", error_or_null(&o->no_shape));
	set(j, "tensors", o->g.n_tensors);
	set(j, "values", o->values);
	set(j, "bytes", o->bytes);
	json_object_set_new(j, "types", tensors_json(o));
	json_object_set_new(j, "types_problem", error_or_null(&o->no_types));
	json_object_set_new(j, "tokenizer", tok_json(o));
	json_object_set_new(chat, "name", o->chat ? json_string(chat_name(o->chat)) : json_null());
	json_object_set_new(chat, "problem", error_or_null(&o->no_chat));
	json_object_set_new(j, "chat_template", chat);
	json_object_set_new(j, "pages", pages_json(o));
	return out_json(j);
}

/* Names in a file may hold anything. */
static int line(const char *what, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int line(const char *what, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	char *p;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	return out_text("%-14s%s\n", what, text);
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void print_model(const struct inspect *o)
{
	struct gguf_str name = text_of(o, "general.name"), arch = text_of(o, "general.architecture");
	const struct model *m = &o->shape;
	uint32_t k;

	line("file", "%s: GGUF v%u, %" PRIu64 " keys%s", o->g.path, o->g.version, o->g.n_values,
	     o->g.n_more ? ", the first of its parts" : "");
	line("model", "%.*s%sarchitecture %.*s", (int)(name.n < 200 ? name.n : 200), name.s, name.n ? ", " : "",
	     (int)(arch.n < 80 ? arch.n : 80), arch.n ? arch.s : "-");
	if (o->no_shape.text[0])
		line("shape", "%s", o->no_shape.text);
	else
		line("shape", "%u layers of %u, %u heads and %u KV heads of %u, context %u, vocabulary %u", m->n_layers,
		     m->dim, m->n_heads, m->n_kv_heads, m->head_dim, m->context, m->vocab);
	line("tensors", "%" PRIu64 ", %.1f MiB, %.1f million values of %.2f bits", o->g.n_tensors, mib(o->bytes),
	     (double)o->values / 1e6, o->values ? (double)o->bytes * 8 / (double)o->values : 0);
	for (k = 0; k <= TYPES_MAX; k++)
		if (o->type[k].n)
			line("", "%-8s %5" PRIu64 "  %9.1f MiB%s", type_name(k), o->type[k].n, mib(o->type[k].bytes),
			     k < TYPES_MAX && kern_type_supported(k) ? "" : "  not supported");
}

static void print_text_side(const struct inspect *o)
{
	struct gguf_str family = text_of(o, "tokenizer.ggml.model"), pre = text_of(o, "tokenizer.ggml.pre");
	const uint32_t *stops;
	char list[200] = "";
	size_t n, i, k = 0;

	if (o->tok) {
		stops = tok_stops(o->tok, &n);
		for (i = 0; i < n && k + 16 < sizeof(list); i++)
			k += (size_t)snprintf(list + k, sizeof(list) - k, " %u", stops[i]);
		line("tokenizer", "%.*s%s%.*s, %u tokens, BOS %d, EOS %d, answers end at%s", (int)family.n, family.s,
		     pre.n ? " " : "", (int)pre.n, pre.s, tok_vocab(o->tok), (int)tok_bos(o->tok), (int)tok_eos(o->tok),
		     n ? list : " none");
	} else {
		line("tokenizer", "%s", o->no_tok.text);
	}
	line("chat template", "%s", o->chat ? chat_name(o->chat) : o->no_chat.text);
}

static void print_pages(const struct inspect *o)
{
	const struct kvslab_geometry *g = &o->geometry;

	if (o->no_pages.text[0]) {
		line("pages", "%s", o->no_pages.text);
		return;
	}
	line("pages",
	     "%u tokens of %.1f KiB in %s: %u KiB in %u layer group%s, %u pages an extent of 2 MiB, %.1f%% of it unused",
	     g->page_tokens, (double)g->token_bytes / 1024, o->kv_type == KVSLAB_KV_F32 ? "f32" : "f16",
	     g->page_size >> 10, g->groups, g->groups > 1 ? "s" : "", g->pages_per_slab, 100 * g->waste);
	line("pool", "%.0f MiB hold %" PRIu64 " tokens, a sequence of the whole context needs %.0f MiB", mib(o->pool),
	     pool_tokens(o, o->pool), mib(engine_pool_need(g, 1, o->shape.context)));
}

static int print_all(const struct inspect *o)
{
	const struct model_error *whys[WHYS] = { &o->no_shape, &o->no_types, &o->no_tok, &o->no_pages };
	int i, err = 0;

	print_model(o);
	print_text_side(o);
	print_pages(o);
	if (runs(o))
		return line("runs here", "yes%s", o->chat ? "" : ", for chats name a template with --chat-template");
	for (i = 0; i < WHYS; i++)
		if (whys[i]->text[0] && (whys[i] != &o->no_pages || !o->no_shape.text[0]))
			err = line("runs here", "no: %s", whys[i]->text);
	return err;
}

int cmd_inspect(int argc, char **argv)
{
	struct inspect o = { .kv_type = KVSLAB_KV_F16, .pool = 1u << 30 };
	struct model_error e = { "" };
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (gguf_open(&o.g, o.path, &e)) {
		msg("%s", e.text);
		return 1;
	}
	if (!model_shape(&o.shape, &o.g, &o.no_shape))
		o.no_shape.text[0] = 0;
	if (!tok_open(&o.tok, &o.g, &o.no_tok))
		o.no_tok.text[0] = 0;
	if (!chat_open(&o.chat, &o.g, &o.no_chat))
		o.no_chat.text[0] = 0;
	count_tensors(&o);
	find_pages(&o);
	err = o.json ? print_json(&o) : print_all(&o);
	chat_close(o.chat);
	tok_close(o.tok);
	gguf_close(&o.g);
	return err != 0;
}
