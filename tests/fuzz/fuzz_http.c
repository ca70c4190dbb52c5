// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * libFuzzer: bytes as a connection would bring them, one request after the other. What comes out must not depend on how
 * they were cut, and what was taken must obey the rules that stop smuggling.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/http_body.h"
#include "runtime/serve/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUESTS 8
#define BODY_MAX 5000

struct outcome {
	int status; /* 0: more must come, 1: whole, else a refusal */
	size_t used;
	struct http_head head;
	struct buf body;
};

static int take_body(struct outcome *o, const char *s, size_t n, size_t piece)
{
	const char *why = NULL;
	struct http_body b;
	size_t k;
	long rc;

	if (http_body_init(&b, &o->head, BODY_MAX))
		return -413;
	while (o->used < n && !http_body_done(&b)) {
		k = n - o->used < piece ? n - o->used : piece;
		rc = http_body_take(&b, s + o->used, k, &o->body, &why);
		if (rc < 0 && !why)
			abort();
		if (rc < 0)
			return (int)rc;
		if ((size_t)rc != k && !http_body_done(&b))
			abort();
		o->used += (size_t)rc;
	}
	if (o->body.n > BODY_MAX)
		abort();
	return http_body_done(&b);
}

static void one(struct outcome *o, const char *s, size_t n, size_t piece)
{
	const char *why = NULL;
	struct http_scan scan;
	size_t have = 0;
	int len = 0;

	memset(&scan, 0, sizeof(scan));
	o->used = 0;
	o->body.n = 0;
	while (!len && have < n) {
		have = n - have < piece ? n : have + piece;
		len = http_scan(&scan, s, have, &why);
	}
	o->status = len;
	if (len > 0)
		o->status = http_head_parse(&o->head, s, (size_t)len, &why);
	if (o->status < 0 && (!why || !*why))
		abort();
	if (len <= 0 || o->status)
		return;
	o->used = (size_t)len;
	o->status = take_body(o, s, n, piece);
}

/* A line feed without its carriage return, or a line that begins with space, may not be in a head that was taken. */
static void check_head(const char *s, size_t size)
{
	size_t i, n = (size_t)((const char *)memmem(s + 2, size - 2, "\r\n\r\n", 4) - s);

	for (i = 0; i < n; i++) {
		if (s[i] == '\n' && (!i || s[i - 1] != '\r'))
			abort();
		if (i && s[i - 1] == '\n' && (s[i] == ' ' || s[i] == '\t'))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 7 };
	struct outcome o[3] = { { .used = 0 }, { .used = 0 }, { .used = 0 } };
	const char *s = (const char *)data;
	int i, r;

	for (r = 0; r < REQUESTS && size; r++) {
		for (i = 0; i < 3; i++)
			one(&o[i], s, size, pieces[i]);
		for (i = 1; i < 3; i++)
			if (o[i].status != o[0].status || o[i].body.n != o[0].body.n ||
			    (o[i].status == 1 && (o[i].used != o[0].used || o[i].head.n_fields != o[0].head.n_fields ||
						  (o[0].body.n && memcmp(o[0].body.b, o[i].body.b, o[0].body.n)))))
				abort();
		if (o[0].status != 1)
			break;
		if (o[0].head.chunked && o[0].head.has_length)
			abort();
		check_head(s, size);
		s += o[0].used;
		size -= o[0].used;
	}
	for (i = 0; i < 3; i++)
		buf_free(&o[i].body);
	return 0;
}
