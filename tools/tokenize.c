// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* kvslab tokenize: a text's ids or pieces, one a line. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "engine.h"
#include "msg.h"
#include "prompts.h"

enum {
	KEY_IDS = 0x100,
	KEY_SPECIAL,
};

struct tokenize {
	struct engine_opts engine_opts;
	const char *text;
	bool ids, special;
};

static const struct argp_option options[] = {
	{ "ids", KEY_IDS, 0, 0, "Print ids (default: pieces, with what cannot be seen escaped as in C)", 0 },
	{ "special", KEY_SPECIAL, 0, 0,
	  "Special tokens that are written in the text become their ids (default: they stay text)", 0 },
	{ 0 }
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct tokenize *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->engine_opts;
		return 0;
	case KEY_IDS:
		o->ids = true;
		return 0;
	case KEY_SPECIAL:
		o->special = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->text)
			die("\"%s\" is a second text; put the text in quotes, or give - and write it to standard "
			    "input", arg);
		o->text = arg;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!o->text)
			die("no text is given; give it in quotes, or - and write it to standard input");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &file_argp, 0, NULL, 0 }, { 0 } };
static const struct argp argp = { options, parse, "TEXT|-",
				  "Print the tokens of a text, one a line, without the BOS that `run' may add.",
				  children, NULL, NULL };

static int print_piece(struct gguf_str piece)
{
	char line[4096];
	size_t i, len, n = 0;

	for (i = 0; i < piece.n; i += len) {
		unsigned char c = (unsigned char)piece.s[i];

		len = utf8_char(piece.s + i, piece.n - i);
		if (n + 8 > sizeof(line)) {
			if (out_bytes(line, n))
				return 1;
			n = 0;
		}
		if (c == '\n' || c == '\t' || c == '\r' || c == '\\') {
			line[n++] = '\\';
			line[n++] = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : '\\';
		} else if (!len || iscntrl(c)) {
			n += (size_t)sprintf(line + n, "\\x%02x", c);
			len = 1;
		} else {
			memcpy(line + n, piece.s + i, len);
			n += len;
		}
	}
	line[n++] = '\n';
	return out_bytes(line, n) != 0;
}

static int tokenize(const struct tokenize *o, struct engine *e)
{
	struct tok_ids ids = { NULL, 0, 0 };
	char *input = NULL;
	const char *text = o->text;
	size_t n = strlen(text), i;
	int err;

	if (!strcmp(text, "-")) {
		input = read_file("-", &n);
		if (!input)
			return 1;
		text = input;
	}
	err = tok_encode(e->tok, text, n, o->special ? TOK_SPECIAL : 0, &ids);
	if (err)
		msg("%zu bytes of text cannot be turned into tokens: %s", n, kvslab_strerror(err));
	for (i = 0; i < ids.n && !err; i++)
		err = o->ids ? out_text("%u\n", ids.id[i]) : print_piece(tok_piece(e->tok, ids.id[i], true));
	tok_ids_free(&ids);
	free(input);
	return err != 0;
}

int cmd_tokenize(int argc, char **argv)
{
	struct engine e = { 0 };
	struct tokenize o = { 0 };
	int status = 1;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (!engine_open_file(&e, o.engine_opts.model))
		status = tokenize(&o, &e);
	engine_close(&e);
	return status;
}
