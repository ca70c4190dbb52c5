/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* A file that appears whole or not at all: written beside its name, renamed at the end. What is there already and no
 * plain file (a pipe, a terminal) is written directly. */
#ifndef TOOLS_OUTFILE_H
#define TOOLS_OUTFILE_H

#include <jansson.h>
#include <stdio.h>

struct outfile {
	const char *path;
	char *tmp; /* owned; NULL: written directly */
	FILE *f;
};

/* -1 after a message. */
int outfile_open(struct outfile *o, const char *path);
int outfile_json(struct outfile *o, json_t *object); /* takes the reference */
int outfile_commit(struct outfile *o);
void outfile_abort(struct outfile *o); /* nothing if committed */

#endif
