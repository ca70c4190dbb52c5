/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Finds the end of a request's head as bytes come in, and refuses what its grammar does not allow. Parsers in use accept
 * bare line feeds, "Host :" and folded lines, which is how requests are smuggled past whoever reads them otherwise.
 */
#ifndef SERVE_HTTP_SCAN_H
#define SERVE_HTTP_SCAN_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 16384 /* bytes */
#define HTTP_TARGET_MAX 8192
#define HTTP_METHOD_MAX 24
#define HTTP_FIELDS_MAX 64

struct http_scan { /* zeroed: at the start */
	uint8_t state;
	size_t at; /* bytes looked at */
	size_t mark; /* where the current part began */
	unsigned int n_fields;
};

/*
 * Goes on over s[0..n), whose first bytes it has seen before. Returns the head's bytes, its empty line included, 0: more
 * must come, or a negative HTTP status with a sentence in @why.
 */
int http_scan(struct http_scan *scan, const char *s, size_t n, const char **why);

#endif
