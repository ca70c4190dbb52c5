/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What the command says, and what it prints. Messages: "what happened; what to do", no full stop. */
#ifndef TOOLS_MSG_H
#define TOOLS_MSG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* "kvslab: ..." on stderr. */
__attribute__((format(printf, 1, 2))) void msg(const char *fmt, ...);
/* The same, and exit 1. For the command line alone, while nothing is open. */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *fmt, ...);

/*
 * Bytes, text or a line of JSON to stdout, flushed. 0, or -errno: the first failure is reported by the call that
 * met it, later ones stay silent and write nothing. What is still buffered at exit is checked as well.
 */
int out_bytes(const void *s, size_t n);
__attribute__((format(printf, 1, 2))) int out_text(const char *fmt, ...);
int out_json(json_t *object); /* takes the reference; NULL is reported as out of memory */
/* At the start of main: the exit status becomes 1 if stdout could not take everything. */
void out_init(void);

/* A JSON string of any bytes: what is not UTF-8 becomes U+FFFD. NULL: no memory. */
json_t *json_bytes(const char *s, size_t n);
/* A JSON number, null where @x is not finite. */
json_t *json_number(double x);
/* Bytes of the UTF-8 character at @s, 0 if what stands there is none. @n: bytes left. */
size_t utf8_char(const char *s, size_t n);

#endif
