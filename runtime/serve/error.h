/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* What a client is told when something is wrong: OpenAI's error object and its HTTP status. */
#ifndef SERVE_ERROR_H
#define SERVE_ERROR_H

#include "buf.h"

struct api_error {
	int status; /* HTTP's */
	char param[64]; /* the field at fault; empty: none in particular */
	char code[40]; /* empty: none */
	char message[640];
	const char *allow; /* with 405: the methods that there are */
};

/* Fills @e and returns -1. */
__attribute__((format(printf, 4, 5))) int api_fail(struct api_error *e, int status, const char *param, const char *fmt, ...);
/* {"error": {...}}, without a line feed. */
void api_error_json(struct buf *b, const struct api_error *e);

#endif
