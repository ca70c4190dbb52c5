/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The body of a request: so many bytes, or chunks. */
#ifndef SERVE_HTTP_BODY_H
#define SERVE_HTTP_BODY_H

#include "buf.h"
#include "http_head.h"

struct http_body {
	uint8_t state;
	uint64_t left; /* bytes of the body, or of the chunk */
	uint64_t limit; /* bytes of the whole */
	size_t line; /* of the line that is being read */
	size_t trailer; /* bytes of trailer fields */
	uint8_t digits;
};

/* 0, or -413: it says that it is longer than @limit. */
int http_body_init(struct http_body *b, const struct http_head *h, uint64_t limit);
bool http_body_done(const struct http_body *b);
/*
 * Takes what belongs to the body from s[0..n) and adds it to @out. Returns the bytes taken (all, unless it is done
 * before), or a negative HTTP status with a sentence in @why.
 */
long http_body_take(struct http_body *b, const char *s, size_t n, struct buf *out, const char **why);

#endif
