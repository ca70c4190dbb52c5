// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * libFuzzer: bytes as a recording. The sums of its records are made right first, or nothing would get past them. What is
 * taken must come back as the same bytes, and all views must draw it.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/map_svg.h"
#include "tools/record.h"
#include "tools/top_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *d, size_t n)
{
	size_t at = RECORD_HEADER, len;
	uint32_t crc;
	int i;

	while (at + RECORD_FRAME <= n) {
		len = d[at + 4] | (size_t)d[at + 5] << 8 | (size_t)d[at + 6] << 16 | (size_t)d[at + 7] << 24;
		if (len > n - at - RECORD_FRAME)
			return;
		crc = record_crc(d + at + RECORD_FRAME, len, record_crc(d + at, 8, 0));
		for (i = 0; i < 4; i++)
			d[at + 8 + (size_t)i] = (uint8_t)(crc >> 8 * i);
		at += RECORD_FRAME + len;
	}
}

static void draw(const struct snap *now, const struct snap *before, FILE *out, int seed)
{
	struct top_view v = { .tier = seed & 1 ? UINT32_MAX : (uint32_t)(seed >> 1 & 1), .interval = 1,
			      .ascii = seed & 2, .text = seed & 4, .sort = (unsigned int)seed % SNAP_SORTS,
			      .recording = "r" };
	struct screen s;
	char *row;
	int y;

	if (screen_init(&s, seed % 130, seed / 7 % 60))
		abort();
	row = malloc((size_t)s.w * 4 + 1);
	top_draw(&s, now, before, &v);
	for (y = 0; row && y < s.h; y++)
		screen_row(&s, y, row);
	if (top_rows(now, &v, s.w) < 1)
		abort();
	free(row);
	screen_free(&s);
	json_decref(top_json(now, before, &v));
	map_svg(out, now, "");
}

static void same_bytes(const struct snap *s, const uint8_t *payload, size_t n)
{
	uint8_t *again;
	size_t m;

	if (record_encode(s, &again, &m))
		abort();
	if (m != n || memcmp(again, payload, n))
		abort();
	free(again);
}

/* Twice over the file, as kvslab map does. */
static uint64_t once(FILE *f, const uint8_t *data, struct map_film *m, FILE *out, bool first)
{
	struct snap before = { 0 }, s;
	struct record_begin b;
	struct record r;
	uint64_t at;
	int rc;

	if (record_open(&r, f)) {
		if (!r.why[0])
			abort();
		return 0;
	}
	for (at = r.at; (rc = record_next(&r, &b, &s)) > 0; at = r.at) {
		if (rc != RECORD_SAMPLE)
			continue;
		if (first) {
			/* Records of unknown types may stand before it. */
			while (data[at] != RECORD_SAMPLE || data[at + 1] || data[at + 2] || data[at + 3])
				at += RECORD_FRAME + (data[at + 4] | (uint64_t)data[at + 5] << 8 |
						      (uint64_t)data[at + 6] << 16 | (uint64_t)data[at + 7] << 24);
			same_bytes(&s, data + at + RECORD_FRAME, r.at - at - RECORD_FRAME);
			snap_sort(&s, (unsigned int)at % SNAP_SORTS, at & 1);
			draw(&s, before.pools ? &before : NULL, out, (int)(data[at + 8] * 31 + data[at + 9]));
			map_film_measure(m, &s);
		} else {
			map_film_add(m, &s);
		}
		snap_free(&before);
		before = s;
	}
	if (rc == RECORD_END && r.at != r.size && !r.why[0])
		abort();
	snap_free(&before);
	return r.samples;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct map_film *m = map_film_new();
	uint8_t *d = malloc(size + 1);
	FILE *f, *out = fopen("/dev/null", "w");

	if (!m || !d || !out)
		abort();
	memcpy(d, data, size);
	mend(d, size);
	f = fmemopen(d, size ? size : 1, "r");
	if (f && size) {
		if (once(f, d, m, out, true) && (once(f, d, m, out, false), map_film_svg(out, m, "", 1)))
			abort();
	}
	if (f)
		fclose(f);
	fclose(out);
	free(d);
	map_film_free(m);
	return 0;
}
