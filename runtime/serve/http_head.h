/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the head of an HTTP/1.x request says. */
#ifndef SERVE_HTTP_HEAD_H
#define SERVE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http_scan.h"

struct http_text {
	const char *s; /* not terminated */
	size_t n;
};

struct http_field {
	struct http_text name, value;
};

enum http_kind {
	HTTP_KIND_GET,
	HTTP_KIND_HEAD,
	HTTP_KIND_POST,
	HTTP_KIND_OTHER,
};

/* Its texts point into what was parsed. */
struct http_head {
	enum http_kind kind;
	struct http_text path, query; /* query without its question mark */
	bool http11;
	bool keep_alive;
	bool chunked;
	bool has_length;
	bool expects_continue;
	uint64_t length; /* of the body, with has_length */
	size_t n_fields;
	struct http_field fields[HTTP_FIELDS_MAX];
};

/* s[0..n) is a head that http_scan() has found whole. 0, or a negative HTTP status with a sentence in @why. */
int http_head_parse(struct http_head *h, const char *s, size_t n, const char **why);
/* The value of the first field of this name (in small letters); NULL: there is none. */
const struct http_text *http_field(const struct http_head *h, const char *name);
/* Whether @t is @word, in any case; @word in small letters. */
bool http_text_is(const struct http_text *t, const char *word);

#endif
