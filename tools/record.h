/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Recordings of what pools held over time; docs/recording.md has the format. A file is appended to and never changed:
 * whatever ends the writer, all records before the last are whole, and a reader takes these.
 */
#ifndef TOOLS_RECORD_H
#define TOOLS_RECORD_H

#include <stdio.h>

#include "snap.h"

#define RECORD_VERSION 1
#define RECORD_MAX (256u << 20) /* bytes of a record */

enum record_type { RECORD_END, RECORD_BEGIN, RECORD_SAMPLE };

/* A recorder began here. */
struct record_begin {
	uint64_t time; /* ns since 1970 */
	uint64_t interval; /* ns */
};

struct record {
	FILE *f;
	uint64_t size, at; /* bytes of the file, and where the first record that was not read begins */
	uint64_t samples; /* read so far */
	char why[200]; /* after RECORD_END: what is wrong with the rest; empty: there is none */
};

/* Takes a file that can be sought in, which stays the caller's. 0, or -EINVAL with @why: no recording, or a newer one. */
int record_open(struct record *r, FILE *f);
/* The next record, those of unknown types left out; *s is the caller's to free. RECORD_END: no whole one is left.
 * -ENOMEM; -EIO. */
int record_next(struct record *r, struct record_begin *b, struct snap *s);

struct record_writer {
	const char *path;
	int fd;
	uint64_t samples; /* written by this writer */
};

/* Makes the file, or goes on with one, without the rest of a record that was cut. Failures are told; -errno. */
int record_create(struct record_writer *w, const char *path, uint64_t interval);
int record_write(struct record_writer *w, const struct snap *s);
int record_close(struct record_writer *w);

/* A sample as bytes and back, for those above and for tests. *out is the caller's to free. */
int record_encode(const struct snap *s, uint8_t **out, size_t *n);
int record_decode(const uint8_t *data, size_t n, struct snap *s);
/* A whole record around a payload, into @out of n + RECORD_FRAME bytes. */
#define RECORD_FRAME 16
void record_frame(enum record_type type, const uint8_t *payload, size_t n, uint8_t *out);
uint32_t record_crc(const uint8_t *data, size_t n, uint32_t crc);
#define RECORD_HEADER 16
void record_header(uint8_t out[RECORD_HEADER]);

#endif
