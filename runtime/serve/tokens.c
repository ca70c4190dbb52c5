// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* /tokenize and /detokenize, as vLLM has them. */
#include <string.h>

#include "json.h"
#include "params.h"

int api_tokenize(struct buf *out, const struct api_model *m, const char *body, size_t n, struct api_error *e)
{
	json_t *o = json_body(body, n, e), *prompt;
	struct tok_ids ids = { NULL, 0, 0 };
	bool special = true, strings = false;
	struct gguf_str piece;
	int rc = -1;
	size_t i;

	if (!o)
		return -1;
	if (json_bool(o, "add_special_tokens", &special, e) || json_bool(o, "return_token_strs", &strings, e))
		goto out;
	prompt = json_field(o, "prompt");
	if (json_field(o, "messages")) {
		rc = prompt_messages(m, o, &ids, e);
	} else if (!json_is_string(prompt)) {
		api_fail(e, 400, "prompt", "prompt is %s; it must be a string", prompt ? json_kind(prompt) : "missing");
	} else {
		rc = prompt_text(m, json_string_value(prompt), json_string_length(prompt), special ? TOK_BOS : 0, &ids, e);
	}
	if (rc)
		goto out;
	buf_print(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids.n, m->context);
	for (i = 0; i < ids.n; i++)
		buf_print(out, "%s%u", i ? "," : "", ids.id[i]);
	buf_text(out, "],\"token_strs\":");
	for (i = 0; strings && i < ids.n; i++) {
		piece = tok_piece(m->tok, ids.id[i], true);
		buf_add(out, i ? "," : "[", 1);
		buf_json(out, piece.s, piece.n);
	}
	buf_text(out, strings ? ids.n ? "]}" : "[]}" : "null}");
out:
	tok_ids_free(&ids);
	json_decref(o);
	return rc;
}

int api_detokenize(struct buf *out, const struct api_model *m, const char *body, size_t n, struct api_error *e)
{
	json_t *o = json_body(body, n, e), *tokens;
	struct tok_ids ids = { NULL, 0, 0 };
	struct buf text = { .n = 0 };
	int rc = -1;

	if (!o)
		return -1;
	tokens = json_field(o, "tokens");
	if (!json_is_array(tokens))
		api_fail(e, 400, "tokens", "tokens is %s; it must be an array of token ids",
			 tokens ? json_kind(tokens) : "missing");
	else
		rc = prompt_ids(m, tokens, "tokens", &ids, e);
	if (!rc) {
		ids_text(m, &ids, true, &text);
		buf_text(out, "{\"prompt\":");
		buf_json(out, text.b, text.n);
		buf_text(out, "}");
		out->failed |= text.failed;
	}
	buf_free(&text);
	tok_ids_free(&ids);
	json_decref(o);
	return rc;
}
