// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Heads and bodies of requests, whole and in pieces. */
#include <stdlib.h>
#include <string.h>

#include "runtime/serve/http_body.h"
#include "runtime/serve/http_head.h"
#include "tests/lib/tap.h"

/* Scans in pieces of 1..@piece bytes, then parses. Returns 0 if more must come, bytes, or a negative status. */
static int parse(struct http_head *h, const char *s, size_t n, size_t piece, uint64_t *seed)
{
	struct http_scan scan;
	const char *why = NULL;
	size_t have = 0;
	int rc = 0;

	memset(&scan, 0, sizeof(scan));
	while (!rc && have < n) {
		have += 1 + rnd(seed) % piece;
		if (have > n)
			have = n;
		rc = http_scan(&scan, s, have, &why);
	}
	if (rc > 0) {
		int err = http_head_parse(h, s, (size_t)rc, &why);

		if (err)
			rc = err;
	}
	if (rc < 0 && (!why || !*why))
		return -999;
	return rc;
}

#define H "Host: a\r\n"

static const struct {
	int want; /* 1: taken whole, 0: not complete, else the status of the refusal */
	const char *s;
} heads[] = {
	{ 1, "GET / HTTP/1.1\r\n" H "\r\n" },
	{ 1, "\r\nGET / HTTP/1.1\r\n" H "\r\n" },
	{ 1, "GET / HTTP/1.0\r\n\r\n" },
	{ 1, "HEAD /v1/models HTTP/1.1\r\nhost:a\r\n\r\n" },
	{ 1, "GET http://a/b?c HTTP/1.1\r\n" H "\r\n" },
	{ 1, "GET / HTTP/1.1\r\nHost:\r\nX-Empty:\r\nY: \t z \t\r\n\r\n" },
	{ 1, "POST /x HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n" },
	{ 1, "POST /x HTTP/1.1\r\n" H "Content-Length:  007  \r\n\r\n" },
	{ 1, "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n" },
	{ 1, "GET / HTTP/1.1\r\n" H "X: \xff\xfe\r\n\r\n" },
	{ 1, "GET / HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n" },
	{ 1, "OPTIONS * HTTP/1.1\r\n" H "\r\n" },
	{ 1, "DELETE /x HTTP/1.1\r\n" H "\r\n" },
	{ 0, "GET / HTTP/1.1\r\n" H "\r" },
	{ 0, "GET / HTTP/1.1\r\n" H },
	{ 0, "G" },
	{ 0, "\r" },
	{ -400, "\n" },
	{ -400, "\r\r" },
	{ -400, "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n" },
	{ -400, " GET / HTTP/1.1\r\n" },
	{ -400, "GET  / HTTP/1.1\r\n" },
	{ -400, "GET /  HTTP/1.1\r\n" },
	{ -400, "GET / HTTP/1.1 \r\n" },
	{ -400, "GET / HTTP/1.1\n" },
	{ -400, "GET /\r\n" },
	{ -400, "GET /\n" },
	{ -400, "GET /\x7f HTTP/1.1\r\n" },
	{ -400, "GET /\xc3\xa4 HTTP/1.1\r\n" },
	{ -400, "GET / http/1.1\r\n" },
	{ -400, "GET / HTTP/11\r\n\r" },
	{ -400, "G(T / HTTP/1.1\r\n" },
	{ -400, "GETGETGETGETGETGETGETGETGET / HTTP/1.1\r\n" },
	{ -505, "GET / HTTP/1.2\r\n" },
	{ -505, "GET / HTTP/2.0\r\n" },
	{ -505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
	{ -501, "BREW / HTTP/1.1\r\n" H "\r\n" },
	{ -400, "GET / HTTP/1.1\r\nHost : a\r\n" },
	{ -400, "GET / HTTP/1.1\r\n: a\r\n" },
	{ -400, "GET / HTTP/1.1\r\nHost\r\n" },
	{ -400, "GET / HTTP/1.1\r\nH\xc3\xb6st: a\r\n" },
	{ -400, "GET / HTTP/1.1\r\n" H " folded\r\n" },
	{ -400, "GET / HTTP/1.1\r\n" H "\tfolded\r\n" },
	{ -400, "GET / HTTP/1.1\r\n folded: x\r\n" },
	{ -400, "GET / HTTP/1.1\r\nHost: a\n" },
	{ -400, "GET / HTTP/1.1\r\nHost: a\rb" },
	{ -400, "GET / HTTP/1.1\r\nHost: a\x01" },
	{ -400, "GET / HTTP/1.1\r\n" H "\n" },
	{ -400, "GET / HTTP/1.1\r\n" H "\rX" },
	{ -400, "GET / HTTP/1.1\r\n\r\n" },
	{ -400, "GET / HTTP/1.1\r\n" H H "\r\n" },
	{ -400, "GET a HTTP/1.1\r\n" H "\r\n" },
	{ -400, "GET http://a HTTP/1.1\r\n" H "\r\n" },
	{ -400, "CONNECT a:1 HTTP/1.1\r\n" H "\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: 1, 1\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: 1 1\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551616\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" },
	{ -400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" },
	{ -400, "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n" },
	{ -501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n" },
	{ -501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n" },
	{ -501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n" },
	{ -501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n" },
	{ -417, "POST / HTTP/1.1\r\n" H "Expect: 200-maybe\r\n\r\n" },
};

static void test_heads(uint64_t *seed)
{
	size_t i, piece, n;
	struct http_head h;
	int rc, bad;

	for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		n = strlen(heads[i].s);
		bad = 0;
		for (piece = 1; piece <= n + 1; piece += 1 + piece / 3) {
			rc = parse(&h, heads[i].s, n, piece, seed);
			/* what the parser refuses by itself may differ from Debian to Debian */
			if (heads[i].want == 1)
				bad += rc != (int)n;
			else if (heads[i].want == -501)
				bad += rc != -501 && rc != -400;
			else
				bad += rc != heads[i].want;
		}
		if (bad)
			printf("# %s\n# gives %d, not %d\n", heads[i].s, rc, heads[i].want);
		ok(!bad, "head %zu", i);
	}
}

static void test_meaning(uint64_t *seed)
{
	static const char full[] = "POST /v1/x%20y?a=b&c HTTP/1.1\r\nHost: h\r\nAUTHORIZATION: Bearer  k \r\n"
				   "content-length: 12\r\nExpect: 100-Continue\r\nX:\r\nZ: 1\r\n\r\n";
	struct http_head h;
	int rc;

	rc = parse(&h, full, sizeof(full) - 1, 9, seed);
	ok(rc == (int)sizeof(full) - 1 && h.kind == HTTP_KIND_POST && http_text_is(&h.path, "/v1/x%20y") &&
		   http_text_is(&h.query, "a=b&c") && h.http11 && h.keep_alive && h.has_length && h.length == 12 &&
		   !h.chunked && h.expects_continue && h.n_fields == 6,
	   "a request's line and length");
	ok(http_field(&h, "authorization") && http_text_is(http_field(&h, "authorization"), "bearer  k") &&
		   http_field(&h, "x") && !http_field(&h, "x")->n && http_text_is(http_field(&h, "z"), "1") &&
		   !http_field(&h, "y"),
	   "its fields, by name in any case, without space around them");
	rc = parse(&h, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", 46, 50, seed);
	ok(rc == 46 && !h.keep_alive && h.kind == HTTP_KIND_GET, "Connection: close");
	rc = parse(&h, "GET / HTTP/1.0\r\n\r\n", 18, 50, seed);
	ok(rc == 18 && !h.keep_alive && !h.http11, "HTTP/1.0 closes");
	rc = parse(&h, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 42, 50, seed);
	ok(rc == 42 && h.keep_alive, "unless it says keep-alive");
}

static void test_limits(uint64_t *seed)
{
	char *s = malloc(40000);
	struct http_head h;
	int i, n;

	n = sprintf(s, "GET /");
	memset(s + n, 'a', 9000);
	ok(parse(&h, s, (size_t)n + 9000, 3000, seed) == -414, "a target of 9000 bytes");
	n = sprintf(s, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
	memset(s + n, 'a', 20000);
	ok(parse(&h, s, (size_t)n + 20000, 3000, seed) == -431, "a field of 20000 bytes");
	ok(parse(&h, s, 16384, 3000, seed) == 0, "16384 bytes may still become a head");
	n = sprintf(s, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (i = 0; i < 63; i++)
		n += sprintf(s + n, "X%d: y\r\n", i);
	i = sprintf(s + n, "\r\n");
	ok(parse(&h, s, (size_t)(n + i), 3000, seed) == n + i && h.n_fields == 64, "64 fields");
	n += sprintf(s + n, "Y: y\r\n\r\n");
	ok(parse(&h, s, (size_t)n, 3000, seed) == -431, "65 fields");
	free(s);
}

/* ---- bodies ---- */

/* Bytes taken, or a negative status; *whole: the body was complete. */
static long take(const char *s, size_t n, uint64_t limit, size_t piece, struct buf *out, bool *whole, uint64_t *seed)
{
	struct http_head h = { .chunked = true };
	struct http_body b;
	const char *why = NULL;
	size_t at = 0, k;
	long rc;

	out->n = 0;
	http_body_init(&b, &h, limit);
	while (at < n && !http_body_done(&b)) {
		k = 1 + rnd(seed) % piece;
		if (k > n - at)
			k = n - at;
		rc = http_body_take(&b, s + at, k, out, &why);
		if (rc < 0)
			return why && *why ? rc : -999;
		at += (size_t)rc;
	}
	*whole = http_body_done(&b);
	return (long)at;
}

static const struct {
	long want; /* 1: whole, 0: not yet, else a status */
	const char *s, *data;
} bodies[] = {
	{ 1, "0\r\n\r\n", "" },
	{ 1, "3\r\nabc\r\n0\r\n\r\n", "abc" },
	{ 1, "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", "abc0123456789" },
	{ 1, "1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n", "\r\n" },
	{ 0, "3\r\nabc\r\n0\r\n", "abc" },
	{ 0, "3\r\nab", "ab" },
	{ -400, "\r\n", "" },
	{ -400, "g\r\n", "" },
	{ -400, " 3\r\nabc\r\n", "" },
	{ -400, "3 \r\nabc\r\n", "" },
	{ -400, "0x3\r\nabc\r\n", "" },
	{ -400, "-3\r\nabc\r\n", "" },
	{ -400, "3\nabc\r\n", "" },
	{ -400, "3;x\nabc\r\n", "" },
	{ -400, "3\r\nabcd\r\n", "" },
	{ -400, "3\r\nabc\n0\r\n\r\n", "" },
	{ -400, "0\r\n\n", "" },
	{ -400, "0\r\nx\n\r\n", "" },
	{ -400, "00000000000000003\r\nabc\r\n", "" },
	{ -413, "FFFFFFFFFFFFFFF\r\n", "" },
	{ -413, "c8\r\n", "" },
};

static void test_bodies(uint64_t *seed)
{
	struct buf out = { .n = 0 };
	size_t i, piece, n;
	bool whole;
	int bad;
	long rc;

	for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		n = strlen(bodies[i].s);
		bad = 0;
		for (piece = 1; piece <= n + 1; piece += 1 + piece / 3) {
			whole = false;
			rc = take(bodies[i].s, n, 100, piece, &out, &whole, seed);
			if (bodies[i].want < 0)
				bad += rc != bodies[i].want;
			else
				bad += rc != (long)n || whole != bodies[i].want || out.n != strlen(bodies[i].data) ||
				       memcmp(out.n ? out.b : "", bodies[i].data, out.n);
		}
		ok(!bad, "chunked body %zu", i);
	}
	buf_free(&out);
}

/* Random data in random chunks, with more behind it that is not the body's. */
static void test_random_bodies(uint64_t *seed)
{
	struct buf out = { .n = 0 }, wire = { .n = 0 }, data = { .n = 0 };
	int i, k, bad = 0;
	size_t n, j, body;
	bool whole;

	for (i = 0; i < 500; i++) {
		wire.n = data.n = 0;
		for (k = (int)(rnd(seed) % 8); k > 0; k--) {
			n = 1 + rnd(seed) % 700;
			buf_print(&wire, rnd(seed) % 2 ? "%zx\r\n" : "%zX;ext\r\n", n);
			for (j = 0; j < n; j++) {
				char c = (char)rnd(seed);

				buf_add(&wire, &c, 1);
				buf_add(&data, &c, 1);
			}
			buf_text(&wire, "\r\n");
		}
		buf_text(&wire, "0\r\n\r\n");
		body = wire.n;
		buf_text(&wire, "GET / HTTP");
		whole = false;
		bad += take(wire.b, wire.n, 1 << 20, 300, &out, &whole, seed) != (long)body || !whole ||
		       out.n != data.n || (out.n && memcmp(out.b, data.b, out.n));
	}
	ok(!bad, "500 random chunked bodies");
	buf_free(&out);
	buf_free(&wire);
	buf_free(&data);
}

static void test_json_text(void)
{
	struct buf b = { .n = 0 };
	static const char in[] = "a\"b\\c\n\t\x01\x7f \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \xff \xc3 \xed\xa0\x80.";
	static const char want[] = "\"a\\\"b\\\\c\\n\\t\\u0001\x7f \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \xef\xbf\xbd "
				   "\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.\"";

	buf_json(&b, in, sizeof(in) - 1);
	ok(b.n == sizeof(want) - 1 && !memcmp(b.b, want, b.n), "a JSON string of hard bytes");
	b.n = 0;
	buf_number(&b, 0.1);
	buf_text(&b, " ");
	buf_number(&b, -1.0 / 3);
	buf_text(&b, " ");
	buf_number(&b, 1e300 * 1e300);
	buf_add(&b, "", 1);
	ok(!strcmp(b.b, "0.1 -0.33333333333333331 null"), "JSON numbers: %s", b.b);
	buf_free(&b);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);

	test_heads(&seed);
	test_meaning(&seed);
	test_limits(&seed);
	test_bodies(&seed);
	test_random_bodies(&seed);
	test_json_text();
	return done();
}
