/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the command says, and what it prints. Messages: "what happened; what to do", no full stop. */
#ifndef TOOLS_MSG_H
#define TOOLS_MSG_H

#include <jansson.h>
#include <stddef.h>

/* "kvslab: ..." on stderr. */
__attribute__((format(printf, 1, 2))) void msg(const char *fmt, ...);

/*
 * Bytes or a line of JSON to stdout, flushed. 0, or -errno: the first failure is reported by the call that met it,
 * later ones stay silent. out_end() closes stdout, the last chance for a full disk to show; call it once.
 */
int out_bytes(const char *s, size_t n);
__attribute__((format(printf, 1, 2))) int out_text(const char *fmt, ...);
int out_json(json_t *object); /* takes the reference; NULL is reported as out of memory */
int out_end(void);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *json_bytes(const char *s, size_t n);

#endif
