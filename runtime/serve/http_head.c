// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/*
 * The parser gives method, target, version and fields; what they mean for the body's length is decided here, where
 * doubt is a refusal, and must be what the parser thinks too.
 */
#include "http_head.h"

#include <string.h>
#include <strings.h>

#if __has_include(<llhttp.h>)
#include <llhttp.h>
typedef llhttp_t parser_t;
typedef llhttp_settings_t settings_t;
#else
#include <http_parser.h>
typedef http_parser parser_t;
typedef http_parser_settings settings_t;
#endif

struct parse {
	parser_t parser;
	struct http_head *h;
	struct http_text target;
	bool complete, chunked, keep_alive;
	uint64_t length;
};

static void extend(struct http_text *t, const char *at, size_t n)
{
	if (!t->s)
		t->s = at;
	t->n = (size_t)(at + n - t->s);
}

static int on_url(parser_t *p, const char *at, size_t n)
{
	extend(&((struct parse *)p)->target, at, n);
	return 0;
}

static int on_name(parser_t *p, const char *at, size_t n)
{
	struct http_head *h = ((struct parse *)p)->h;

	/* The head is given in one piece, so a name is too. */
	if (h->n_fields == HTTP_FIELDS_MAX)
		return -1;
	h->fields[h->n_fields++].name = (struct http_text){ at, n };
	return 0;
}

static int on_value(parser_t *p, const char *at, size_t n)
{
	struct http_head *h = ((struct parse *)p)->h;

	if (!h->n_fields)
		return -1;
	extend(&h->fields[h->n_fields - 1].value, at, n);
	return 0;
}

static int on_complete(parser_t *p)
{
	struct parse *a = (struct parse *)p;

	a->complete = true;
	a->chunked = (p->flags & F_CHUNKED) != 0;
	a->length = p->content_length;
#if __has_include(<llhttp.h>)
	a->keep_alive = llhttp_should_keep_alive(p);
#else
	a->keep_alive = http_should_keep_alive(p);
#endif
	return 1; /* the body is none of the parser's business */
}

/* -400 or -501: the parser does not take it. */
static int execute(struct parse *a, const char *s, size_t n, const char **why)
{
	settings_t settings;
	bool unknown;

	*why = "the request's head cannot be parsed";
#if __has_include(<llhttp.h>)
	llhttp_settings_init(&settings);
#else
	http_parser_settings_init(&settings);
#endif
	settings.on_url = on_url;
	settings.on_header_field = on_name;
	settings.on_header_value = on_value;
	settings.on_headers_complete = on_complete;
#if __has_include(<llhttp.h>)
	llhttp_init(&a->parser, HTTP_REQUEST, &settings);
	unknown = llhttp_execute(&a->parser, s, n) == HPE_INVALID_METHOD;
#else
	http_parser_init(&a->parser, HTTP_REQUEST);
	http_parser_execute(&a->parser, &settings, s, n);
	unknown = HTTP_PARSER_ERRNO(&a->parser) == HPE_INVALID_METHOD;
#endif
	if (unknown) {
		*why = "this method is not known";
		return -501;
	}
	return a->complete ? 0 : -400;
}

bool http_text_is(const struct http_text *t, const char *word)
{
	return t->n == strlen(word) && !strncasecmp(t->s ? t->s : "", word, t->n);
}

const struct http_text *http_field(const struct http_head *h, const char *name)
{
	size_t i;

	for (i = 0; i < h->n_fields; i++)
		if (http_text_is(&h->fields[i].name, name))
			return &h->fields[i].value;
	return NULL;
}

static size_t count(const struct http_head *h, const char *name)
{
	size_t i, n = 0;

	for (i = 0; i < h->n_fields; i++)
		n += http_text_is(&h->fields[i].name, name);
	return n;
}

static void trim(struct http_text *t)
{
	while (t->n && (t->s[0] == ' ' || t->s[0] == '\t')) {
		t->s++;
		t->n--;
	}
	while (t->n && (t->s[t->n - 1] == ' ' || t->s[t->n - 1] == '\t'))
		t->n--;
}

static int set_target(struct http_head *h, struct http_text t, const char **why)
{
	static const char scheme[] = "http://";
	const char *at;

	*why = "the request's target is not a path";
	if (t.n >= sizeof(scheme) - 1 && !strncasecmp(t.s, scheme, sizeof(scheme) - 1)) {
		/* the absolute form, as for a proxy: the authority is that of the connection */
		at = memchr(t.s + sizeof(scheme) - 1, '/', t.n - (sizeof(scheme) - 1));
		if (!at)
			return -400;
		t.n -= (size_t)(at - t.s);
		t.s = at;
	}
	if (!t.n || (t.s[0] != '/' && !(t.n == 1 && t.s[0] == '*')))
		return -400;
	h->path = t;
	at = memchr(t.s, '?', t.n);
	if (at) {
		h->path.n = (size_t)(at - t.s);
		h->query.s = at + 1;
		h->query.n = t.n - h->path.n - 1;
	}
	return 0;
}

static int set_length(struct http_head *h, const char **why)
{
	const struct http_text *coding = http_field(h, "transfer-encoding"), *length = http_field(h, "content-length");
	size_t i;

	if (coding) {
		*why = "the body's length is given in two ways";
		if (length || count(h, "transfer-encoding") > 1)
			return -400;
		*why = "a transfer coding needs HTTP/1.1";
		if (!h->http11)
			return -400;
		*why = "the one transfer coding that this server knows is chunked";
		if (!http_text_is(coding, "chunked"))
			return -501;
		h->chunked = true;
		return 0;
	}
	if (!length)
		return 0;
	*why = "Content-Length is given more than once";
	if (count(h, "content-length") > 1)
		return -400;
	*why = "Content-Length is no number";
	if (!length->n || length->n > 18)
		return -400;
	for (i = 0; i < length->n; i++) {
		if (length->s[i] < '0' || length->s[i] > '9')
			return -400;
		h->length = 10 * h->length + (uint64_t)(length->s[i] - '0');
	}
	h->has_length = true;
	return 0;
}

static int set_expect(struct http_head *h, const char **why)
{
	const struct http_text *expect = http_field(h, "expect");

	if (!expect || !h->http11)
		return 0;
	*why = "the one expectation that this server knows is 100-continue";
	if (!http_text_is(expect, "100-continue"))
		return -417;
	h->expects_continue = true;
	return 0;
}

static enum http_kind kind(unsigned int method)
{
	switch (method) {
	case HTTP_GET:
		return HTTP_KIND_GET;
	case HTTP_HEAD:
		return HTTP_KIND_HEAD;
	case HTTP_POST:
		return HTTP_KIND_POST;
	}
	return HTTP_KIND_OTHER;
}

int http_head_parse(struct http_head *h, const char *s, size_t n, const char **why)
{
	struct parse a = { .h = h };
	size_t i;
	int rc;

	memset(h, 0, sizeof(*h));
	rc = execute(&a, s, n, why);
	if (rc)
		return rc;
	for (i = 0; i < h->n_fields; i++)
		trim(&h->fields[i].value);
	h->http11 = a.parser.http_minor == 1;
	h->kind = kind(a.parser.method);
	h->keep_alive = a.keep_alive;
	rc = set_target(h, a.target, why);
	if (!rc)
		rc = set_length(h, why);
	if (!rc)
		rc = set_expect(h, why);
	if (rc)
		return rc;
	*why = "the request needs one Host header";
	if (count(h, "host") > 1 || (h->http11 && !http_field(h, "host")))
		return -400;
	*why = "the request's head can be read in two ways";
	if (a.chunked != h->chunked || (h->has_length && a.length != h->length))
		return -400;
	return 0;
}
