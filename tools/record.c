// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The file: header, records, what is whole and what is not. */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char magic[8] = { 'k', 'v', 's', 'l', 'a', 'b', 'r', 'c' };

static void put32(uint8_t *p, uint32_t v)
{
	int i;

	for (i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* CRC-32 of IEEE 802.3, as zlib has it, four bits at a time. */
uint32_t record_crc(const uint8_t *data, size_t n, uint32_t crc)
{
	static const uint32_t table[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
					    0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
					    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
					    0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
	size_t i;

	crc = ~crc;
	for (i = 0; i < n; i++) {
		crc = table[(crc ^ data[i]) & 15] ^ crc >> 4;
		crc = table[(crc ^ data[i] >> 4) & 15] ^ crc >> 4;
	}
	return ~crc;
}

void record_header(uint8_t out[RECORD_HEADER])
{
	memcpy(out, magic, sizeof(magic));
	put32(out + 8, RECORD_VERSION);
	put32(out + 12, 0);
}

/* The sum covers type and size, and the payload. */
void record_frame(enum record_type type, const uint8_t *payload, size_t n, uint8_t *out)
{
	put32(out, type);
	put32(out + 4, (uint32_t)n);
	put32(out + 8, record_crc(payload, n, record_crc(out, 8, 0)));
	put32(out + 12, 0);
	memcpy(out + RECORD_FRAME, payload, n);
}

int record_open(struct record *r, FILE *f)
{
	uint8_t head[RECORD_HEADER];
	off_t end;

	memset(r, 0, sizeof(*r));
	r->f = f;
	if (fseeko(f, 0, SEEK_END) || (end = ftello(f)) < 0 || fseeko(f, 0, SEEK_SET)) {
		snprintf(r->why, sizeof(r->why), "it is no regular file");
		return -EINVAL;
	}
	r->size = (uint64_t)end;
	if (r->size < sizeof(head) || fread(head, sizeof(head), 1, f) != 1 ||
	    memcmp(head, magic, sizeof(magic))) {
		snprintf(r->why, sizeof(r->why), "it is no recording of kvslab trace frag --record");
		return -EINVAL;
	}
	if (get32(head + 8) != RECORD_VERSION) {
		snprintf(r->why, sizeof(r->why),
			 "it is of version %" PRIu32 " and this command reads version %d; read it with the release "
			 "that wrote it",
			 get32(head + 8), RECORD_VERSION);
		return -EINVAL;
	}
	r->at = sizeof(head);
	return 0;
}

static int ends(struct record *r, const char *what)
{
	snprintf(r->why, sizeof(r->why), "the record at byte %" PRIu64 " is %s; the %" PRIu64
		 " samples before it are whole, %" PRIu64 " bytes are left out", r->at, what, r->samples,
		 r->size - r->at);
	return RECORD_END;
}

static int take(struct record *r, uint32_t type, const uint8_t *payload, uint32_t n,
		struct record_begin *b, struct snap *s)
{
	int err;

	if (type == RECORD_BEGIN) {
		if (n < 16)
			return -EINVAL;
		b->time = get64(payload);
		b->interval = get64(payload + 8);
		return 0;
	}
	err = record_decode(payload, n, s);
	if (!err)
		r->samples++;
	return err;
}

int record_next(struct record *r, struct record_begin *b, struct snap *s)
{
	uint8_t frame[RECORD_FRAME], *payload;
	uint32_t type, n;
	int err = 0;

	for (;;) {
		if (r->at == r->size)
			return RECORD_END;
		if (r->size - r->at < sizeof(frame))
			return ends(r, "cut short");
		if (fseeko(r->f, (off_t)r->at, SEEK_SET) || fread(frame, sizeof(frame), 1, r->f) != 1)
			return -EIO;
		type = get32(frame);
		n = get32(frame + 4);
		if (n > RECORD_MAX || get32(frame + 12))
			return ends(r, "damaged");
		if (n > r->size - r->at - sizeof(frame))
			return ends(r, "cut short");
		payload = malloc(n + 1);
		if (!payload)
			return -ENOMEM;
		if (n && fread(payload, n, 1, r->f) != 1)
			err = -EIO;
		else if (record_crc(payload, n, record_crc(frame, 8, 0)) != get32(frame + 8))
			err = -EINVAL;
		else if (type == RECORD_BEGIN || type == RECORD_SAMPLE)
			err = take(r, type, payload, n, b, s);
		free(payload);
		if (err == -EINVAL)
			return ends(r, "damaged");
		if (err)
			return err;
		r->at += sizeof(frame) + n;
		if (type == RECORD_BEGIN || type == RECORD_SAMPLE)
			return (int)type;
	}
}
