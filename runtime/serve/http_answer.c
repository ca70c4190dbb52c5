// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <string.h>
#include <time.h>

#include "http_conn.h"

#define SEND_MAX 65536 /* bytes in flight, so that a slow reader's progress is seen */

const char *http_reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 413:
		return "Content Too Large";
	case 414:
		return "URI Too Long";
	case 415:
		return "Unsupported Media Type";
	case 417:
		return "Expectation Failed";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	}
	return "Unknown";
}

size_t http_backlog(const struct http_conn *c)
{
	return c->out.n + c->sending.n - c->sent_at;
}

/* ---- output ---- */

static void send_piece(struct http_conn *c)
{
	size_t n = c->sending.n - c->sent_at;

	if (n > SEND_MAX)
		n = SEND_MAX;
	if (loop_send(&c->sock, c->sending.b + c->sent_at, n))
		http_conn_close(c);
	else
		loop_timer_set(c->server->loop, &c->out_timer,
			       loop_now(c->server->loop) + c->server->limits.send_ms * (uint64_t)1000000);
}

void http_flush(struct http_conn *c)
{
	struct buf empty = c->sending;

	if (c->out.failed) {
		http_conn_close(c);
		return;
	}
	if (c->closing || c->sock.send.busy || !c->out.n)
		return;
	c->sending = c->out;
	c->out = empty;
	c->out.n = 0;
	c->sent_at = 0;
	send_piece(c);
}

void http_sent(struct loop_sock *sock, int n)
{
	struct http_conn *c = (struct http_conn *)sock;

	if (n < 0) {
		http_conn_close(c);
		return;
	}
	c->sent_at += (size_t)n;
	if (c->sent_at < c->sending.n) {
		send_piece(c);
		return;
	}
	loop_timer_stop(&c->out_timer);
	c->sending.n = c->sent_at = 0;
	if (c->sending.cap > 2 * HTTP_STREAM_HIGH)
		buf_free(&c->sending);
	http_flush(c);
	if (c->closing)
		return;
	if (c->state == HTTP_ENDING)
		http_linger(c);
	else if (c->state == HTTP_IN_STREAM && http_backlog(c) < HTTP_STREAM_LOW)
		c->server->ops->room(c);
	else if (c->state == HTTP_IN_HEAD)
		http_advance(c); /* what was sent ahead waits for room */
}

/* ---- answers ---- */

static const char *date(struct http_server *s)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != s->date_at && gmtime_r(&now, &tm)) {
		strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		s->date_at = now;
	}
	return s->date;
}

/* The peer will not see it; the exchange is over all the same. */
static bool is_closing(struct http_conn *c)
{
	if (!c->closing)
		return false;
	c->in_exchange = false;
	c->exchange = NULL;
	return true;
}

void http_drop(struct http_conn *c)
{
	http_conn_close(c);
}

static void begin(struct http_conn *c, int status, const char *type, const char *fields)
{
	if (c->server->stopping)
		c->keep = false;
	loop_timer_stop(&c->in_timer);
	buf_print(&c->out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nConnection: %s\r\n%s", status,
		  http_reason(status), date(c->server), type, c->keep ? "keep-alive" : "close", fields ? fields : "");
}

void http_answer(struct http_conn *c, int status, const char *type, const char *fields, const char *body, size_t n)
{
	if (is_closing(c))
		return;
	begin(c, status, type, fields);
	buf_print(&c->out, "Content-Length: %zu\r\n\r\n", n);
	if (!c->head_only)
		buf_add(&c->out, body, n);
	http_flush(c);
	if (!is_closing(c))
		http_next(c);
}

void http_stream(struct http_conn *c, int status, const char *type, const char *fields)
{
	if (c->closing)
		return;
	/* To HTTP/1.0 a stream's end is the connection's. */
	c->chunked = c->http11;
	if (!c->chunked)
		c->keep = false;
	begin(c, status, type, fields);
	buf_text(&c->out, c->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	c->state = HTTP_IN_STREAM;
	http_flush(c);
}

void http_stream_add(struct http_conn *c, const char *s, size_t n)
{
	if (c->closing || c->head_only || !n)
		return;
	if (c->chunked)
		buf_print(&c->out, "%zx\r\n", n);
	buf_add(&c->out, s, n);
	if (c->chunked)
		buf_add(&c->out, "\r\n", 2);
	http_flush(c);
}

void http_stream_end(struct http_conn *c)
{
	if (is_closing(c))
		return;
	if (c->chunked && !c->head_only)
		buf_text(&c->out, "0\r\n\r\n");
	http_flush(c);
	if (!is_closing(c))
		http_next(c);
}
