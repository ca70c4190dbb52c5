/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Bytes that grow. Once memory is refused, `failed` stays set and nothing more is added: whoever fills a buffer looks
 * once, at the end. Zeroed is empty.
 */
#ifndef SERVE_BUF_H
#define SERVE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *b;
	size_t n, cap;
	bool failed;
};

/* Room for @more bytes at b + n, NULL if there is none to be had; who fills it adds to n. */
char *buf_room(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *s, size_t n);
void buf_text(struct buf *b, const char *s);
__attribute__((format(printf, 2, 3))) void buf_print(struct buf *b, const char *fmt, ...);
/* A JSON string in its quotes. What is not UTF-8 becomes U+FFFD. */
void buf_json(struct buf *b, const char *s, size_t n);
/* A JSON number that reads back as the same f64, or f32; null where @x is not finite. */
void buf_number(struct buf *b, double x);
void buf_float(struct buf *b, float x);
void buf_drop(struct buf *b, size_t n); /* the first @n */
void buf_free(struct buf *b); /* empty again, failed cleared */

#endif
