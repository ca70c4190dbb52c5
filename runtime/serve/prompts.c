// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Prompts of requests, as text, ids or messages, into tokens. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "params.h"

#define ROLE_MAX 32

int prompt_text(const struct api_model *m, const char *s, size_t n, unsigned int flags, struct tok_ids *ids,
		struct api_error *e)
{
	int err = tok_encode(m->tok, s, n, flags, ids);

	if (err == -ENOMEM)
		return api_fail(e, 503, NULL, "no memory for a prompt of %zu bytes; try again", n);
	if (err)
		return api_fail(e, 400, "prompt", "%zu bytes of text cannot be turned into tokens: %s", n,
				kvslab_strerror(err));
	return 0;
}

int prompt_ids(const struct api_model *m, const json_t *array, const char *name, struct tok_ids *ids, struct api_error *e)
{
	size_t i, n = json_array_size(array);
	uint32_t vocab = tok_vocab(m->tok);
	const json_t *j;
	json_int_t id;

	ids->id = malloc((n ? n : 1) * sizeof(*ids->id));
	if (!ids->id)
		return api_fail(e, 503, NULL, "no memory for %zu token ids; try again", n);
	ids->cap = n;
	for (i = 0; i < n; i++) {
		j = json_array_get(array, i);
		id = json_integer_value(j);
		if (!json_is_integer(j) || id < 0 || id >= (json_int_t)vocab)
			return api_fail(e, 400, name, "%s[%zu] is no token id; ids are integers from 0 to %u", name, i,
					vocab - 1);
		ids->id[ids->n++] = (uint32_t)id;
	}
	return 0;
}

/* Text of a message's content: a string, or an array of parts of type text. *owned is to be freed. */
static int content(const json_t *message, size_t i, const char **s, size_t *n, char **owned, struct api_error *e)
{
	const json_t *j = json_object_get(message, "content"), *part, *text;
	const char *type;
	struct buf b = { .n = 0 };
	size_t k;

	if (json_is_string(j)) {
		*s = json_string_value(j);
		*n = json_string_length(j);
		return 0;
	}
	if (!json_is_array(j))
		return api_fail(e, 400, "messages", "messages[%zu].content is %s; it must be a string or an array of "
				"text parts", i, j ? json_kind(j) : "missing");
	for (k = 0; k < json_array_size(j); k++) {
		part = json_array_get(j, k);
		type = json_string_value(json_object_get(part, "type"));
		text = json_object_get(part, "text");
		if (!type || strcmp(type, "text") || !json_is_string(text)) {
			buf_free(&b);
			return api_fail(e, 400, "messages", "messages[%zu].content[%zu] is of type \"%.40s\"; this server "
					"takes parts of type \"text\" alone", i, k, type ? type : "");
		}
		buf_add(&b, json_string_value(text), json_string_length(text));
	}
	if (b.failed) {
		buf_free(&b);
		return api_fail(e, 503, NULL, "no memory for a message; try again");
	}
	*s = *owned = b.b;
	*n = b.n;
	return 0;
}

static const char *const roles[][2] = {
	{ "system", "system" }, { "developer", "system" }, { "user", "user" }, { "assistant", "assistant" },
};

static int role(const json_t *message, size_t i, const char **role_out, struct api_error *e)
{
	const char *name = json_string_value(json_object_get(message, "role"));
	size_t k;

	for (k = 0; name && k < sizeof(roles) / sizeof(roles[0]); k++) {
		if (!strcmp(name, roles[k][0])) {
			*role_out = roles[k][1];
			return 0;
		}
	}
	return api_fail(e, 400, "messages", "messages[%zu].role is \"%.*s\"; it must be system, user or assistant", i,
			ROLE_MAX, name ? name : "");
}

int prompt_messages(const struct api_model *m, const json_t *o, struct tok_ids *ids, struct api_error *e)
{
	const json_t *array = json_field(o, "messages"), *message;
	size_t n = json_array_size(array), i;
	struct chat_message *messages = NULL;
	struct model_error me = { "" };
	char **owned = NULL;
	int rc = -1, err;

	if (!json_is_array(array) || !n || n > MESSAGES_MAX)
		return api_fail(e, 400, "messages", "messages must be an array of 1 to %d messages", MESSAGES_MAX);
	if (!m->chat)
		return api_fail(e, 400, "messages", "this model takes no chats: %s", m->chat_error);
	messages = calloc(n, sizeof(*messages));
	owned = calloc(n, sizeof(*owned));
	if (!messages || !owned) {
		api_fail(e, 503, NULL, "no memory for %zu messages; try again", n);
		goto out;
	}
	for (i = 0; i < n; i++) {
		message = json_array_get(array, i);
		if (!json_is_object(message)) {
			api_fail(e, 400, "messages", "messages[%zu] is %s; it must be an object", i, json_kind(message));
			goto out;
		}
		if (json_field(message, "tool_calls") || json_field(message, "function_call")) {
			api_fail(e, 400, "messages", "messages[%zu] has tool calls, which this server does not support", i);
			goto out;
		}
		if (role(message, i, &messages[i].role, e) ||
		    content(message, i, &messages[i].content, &messages[i].n, &owned[i], e))
			goto out;
	}
	err = chat_encode(m->chat, m->tok, messages, n, ids, &me);
	if (err)
		api_fail(e, err == -ENOMEM ? 503 : 400, "messages", "%s", me.text);
	else
		rc = 0;
out:
	for (i = 0; owned && i < n; i++)
		free(owned[i]);
	free(owned);
	free(messages);
	return rc;
}

void ids_text(const struct api_model *m, const struct tok_ids *ids, bool special, struct buf *out)
{
	struct tok_stream s;
	size_t i, most = 3 * tok_piece_max(m->tok) + 16;
	struct gguf_str piece;
	char *to;

	tok_stream_init(&s, m->tok);
	for (i = 0; i < ids->n; i++) {
		to = buf_room(out, most);
		if (!to)
			return;
		piece = tok_piece(m->tok, ids->id[i], false);
		if (special && !piece.n) {
			out->n += tok_stream_end(&s, to);
			piece = tok_piece(m->tok, ids->id[i], true);
			buf_add(out, piece.s, piece.n);
		} else {
			out->n += tok_stream_next(&s, ids->id[i], to);
		}
	}
	to = buf_room(out, 16);
	if (to)
		out->n += tok_stream_end(&s, to);
}
