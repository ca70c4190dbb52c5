// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_conn.h"

#define MS 1000000u
#define IN_FIRST 2048 /* bytes for input: of a connection that says nothing yet */
#define IN_LEAST 1024 /* room for a receive */
#define IN_MOST (HTTP_HEAD_MAX + 4096)
#define AHEAD_MAX 8192 /* bytes of requests sent ahead that are taken while one is answered */
#define BODY_RATE (16384 / 1000) /* bytes a millisecond */
#define LINGER_MS 2000
#define LINGER_BYTES (64u << 20)

static void arm(struct http_conn *c, uint64_t ms)
{
	loop_timer_set(c->server->loop, &c->in_timer, loop_now(c->server->loop) + ms * MS);
}

static void refuse(struct http_conn *c, int status, const char *why)
{
	c->keep = false;
	if (c->state == HTTP_IN_STREAM) {
		http_conn_close(c);
		return;
	}
	c->in_exchange = true;
	c->server->ops->refuse(c, status, why);
}

static void set_body_counted(struct http_conn *c, size_t n)
{
	c->server->body_bytes += n - c->body_counted;
	c->body_counted = n;
}

/* ---- input ---- */

static bool in_grow(struct http_conn *c)
{
	size_t cap = c->in_cap ? 2 * c->in_cap : IN_FIRST;
	char *in;

	if (cap > IN_MOST)
		cap = IN_MOST;
	in = realloc(c->in, cap);
	if (!in)
		return false;
	c->in = in;
	c->in_cap = cap;
	return true;
}

/* No receive is in flight: make room for one. */
static bool in_room(struct http_conn *c)
{
	if (c->in_at) {
		memmove(c->in, c->in + c->in_at, c->in_n - c->in_at);
		c->in_n -= c->in_at;
		c->in_at = 0;
	}
	/* A connection that rests gives back what a large request took. */
	if (!c->in_n && c->in_cap > IN_FIRST && c->state == HTTP_IN_HEAD) {
		free(c->in);
		c->in = NULL;
		c->in_cap = 0;
	}
	return c->in_cap - c->in_n >= IN_LEAST || in_grow(c);
}

void http_receive(struct http_conn *c)
{
	size_t ahead = c->in_n - c->in_at;

	if (c->closing || c->eof || c->sock.recv.busy)
		return;
	/* Whoever sends much ahead, or does not read, is not listened to meanwhile; but that he left is noticed. */
	if (ahead >= AHEAD_MAX && c->state != HTTP_IN_BODY &&
	    (c->state != HTTP_IN_HEAD || http_backlog(c) > HTTP_STREAM_HIGH)) {
		if (!c->sock.watch.busy)
			loop_watch(&c->sock);
		return;
	}
	if (!in_room(c) || loop_recv(&c->sock, c->in + c->in_n, c->in_cap - c->in_n))
		http_conn_close(c);
}

static void begin_body(struct http_conn *c)
{
	c->state = HTTP_IN_BODY;
	c->body_start = loop_now(c->server->loop);
	c->body_got = 0;
	arm(c, c->server->limits.body_ms);
}

/* False: more must come, or the state forbids to go on. */
static bool advance_head(struct http_conn *c)
{
	struct http_server *s = c->server;
	const char *why = "", *at = c->in + c->in_at;
	struct http_head h;
	bool keep;
	int n;

	if (http_backlog(c) > HTTP_STREAM_HIGH)
		return false;
	n = http_scan(&c->scan, at, c->in_n - c->in_at, &why);
	if (!n) {
		if (c->in_n > c->in_at && !c->timing_head) {
			c->timing_head = true;
			arm(c, s->limits.head_ms);
		}
		return false;
	}
	loop_timer_stop(&c->in_timer);
	c->timing_head = false;
	memset(&c->scan, 0, sizeof(c->scan));
	c->http11 = c->keep = c->head_only = false;
	if (n > 0) {
		c->in_at += (size_t)n;
		n = http_head_parse(&h, at, (size_t)n, &why);
	}
	if (n < 0) {
		refuse(c, -n, why);
		return true;
	}
	c->http11 = h.http11;
	c->head_only = h.kind == HTTP_KIND_HEAD;
	c->keep = h.keep_alive && !s->stopping;
	c->in_exchange = true;
	begin_body(c);
	if (http_body_init(&c->body_state, &h, s->limits.body)) {
		refuse(c, 413, "the body is longer than this server takes");
		return true;
	}
	keep = c->keep;
	/* Answered before the body is in, the connection must end: the body would be read as the next request. */
	if (!http_body_done(&c->body_state))
		c->keep = false;
	if (!s->ops->head(c, &h, &c->exchange))
		return true;
	c->keep = keep;
	if (h.expects_continue && c->in_at == c->in_n && !http_body_done(&c->body_state)) {
		buf_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
		http_flush(c);
	}
	return true;
}

static bool advance_body(struct http_conn *c)
{
	struct http_server *s = c->server;
	const char *why = "";
	uint64_t waited;
	long n;

	n = http_body_take(&c->body_state, c->in + c->in_at, c->in_n - c->in_at, &c->body, &why);
	if (n < 0) {
		refuse(c, (int)-n, why);
		return true;
	}
	c->in_at += (size_t)n;
	c->body_got += (uint64_t)n;
	set_body_counted(c, c->body.cap);
	if (c->body.failed || s->body_bytes > s->limits.bodies) {
		refuse(c, 503, "the server holds as many bytes of requests as it may; try again");
		return true;
	}
	if (!http_body_done(&c->body_state)) {
		waited = (loop_now(s->loop) - c->body_start) / MS;
		if (n && s->limits.body_ms + c->body_got / BODY_RATE > waited)
			arm(c, s->limits.body_ms + c->body_got / BODY_RATE - waited);
		return false;
	}
	loop_timer_stop(&c->in_timer);
	c->state = HTTP_IN_EXCHANGE;
	s->ops->request(c, &c->body);
	return true;
}

void http_advance(struct http_conn *c)
{
	bool more = true;

	if (c->advancing)
		return;
	c->advancing = true;
	while (more && !c->closing) {
		if (c->state == HTTP_IN_HEAD)
			more = advance_head(c);
		else if (c->state == HTTP_IN_BODY)
			more = advance_body(c);
		else
			more = false;
	}
	c->advancing = false;
	http_receive(c);
}

void http_next(struct http_conn *c)
{
	c->in_exchange = false;
	c->exchange = NULL;
	c->body.n = 0;
	if (c->body.failed || c->body.cap > IN_FIRST)
		buf_free(&c->body);
	set_body_counted(c, c->body.cap);
	if (c->server->stopping)
		c->keep = false;
	if (!c->keep) {
		c->state = HTTP_ENDING;
		http_linger(c);
		return;
	}
	c->state = HTTP_IN_HEAD;
	c->timing_head = false;
	arm(c, c->server->limits.idle_ms);
	http_advance(c);
}

/* All is sent: tell the peer so, and give it time to read it. Closing with input unread would reset the connection and take
 * the answer back from it. */
void http_linger(struct http_conn *c)
{
	if (http_backlog(c) || c->closing)
		return;
	c->in_at = c->in_n;
	if (c->eof || loop_sock_shutdown(&c->sock)) {
		http_conn_close(c);
		return;
	}
	c->body_got = 0;
	arm(c, LINGER_MS);
	http_receive(c);
}

static void peer_ended(struct http_conn *c)
{
	c->eof = true;
	/* With a request in work, whether he closed or only will not send any more cannot be told: he closed. */
	if (c->in_exchange || !http_backlog(c)) {
		http_conn_close(c);
		return;
	}
	c->keep = false;
	c->state = HTTP_ENDING;
}

static void received(struct loop_sock *sock, int n)
{
	struct http_conn *c = (struct http_conn *)sock;

	if (n < 0) {
		http_conn_close(c);
	} else if (!n) {
		peer_ended(c);
	} else if (c->state == HTTP_ENDING) {
		c->body_got += (uint64_t)n;
		c->in_at = c->in_n = 0;
		if (c->body_got > LINGER_BYTES)
			http_conn_close(c);
		else
			http_receive(c);
	} else {
		c->in_n += (size_t)n;
		http_advance(c);
	}
}

static void hung_up(struct loop_sock *sock)
{
	struct http_conn *c = (struct http_conn *)sock;

	/* Between requests the receive tells, after what was sent before the end. */
	if (c->in_exchange)
		http_conn_close(c);
}

/* ---- time-outs ---- */

static void in_timeout(struct loop_timer *t)
{
	struct http_conn *c = (struct http_conn *)((char *)t - offsetof(struct http_conn, in_timer));

	if (c->state == HTTP_IN_BODY)
		refuse(c, 408, "the request's body came too slowly");
	else if (c->state == HTTP_IN_HEAD && c->in_n > c->in_at)
		refuse(c, 408, "the request's head came too slowly");
	else
		http_conn_close(c);
}

static void out_timeout(struct loop_timer *t)
{
	http_conn_close((struct http_conn *)((char *)t - offsetof(struct http_conn, out_timer)));
}

/* ---- life ---- */

static void set_peer(struct http_conn *c, int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	char host[INET6_ADDRSTRLEN] = "";
	int one = 1;

	snprintf(c->peer, sizeof(c->peer), "unix");
	if (getpeername(fd, (struct sockaddr *)&a, &n))
		return;
	if (a.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&a;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(c->peer, sizeof(c->peer), "%s:%u", host, ntohs(in->sin_port));
	} else if (a.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(c->peer, sizeof(c->peer), "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void closed(struct loop_sock *sock)
{
	struct http_conn *c = (struct http_conn *)sock;
	struct http_server *s = c->server;

	if (c->in_exchange && c->exchange)
		s->ops->gone(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_conns--;
	set_body_counted(c, 0);
	buf_free(&c->body);
	buf_free(&c->out);
	buf_free(&c->sending);
	free(c->in);
	free(c);
}

void http_conn_close(struct http_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	loop_timer_stop(&c->in_timer);
	loop_timer_stop(&c->out_timer);
	loop_sock_close(&c->sock);
}

void http_conn_open(struct http_server *s, int fd)
{
	struct http_conn *c = calloc(1, sizeof(*c));

	if (!c || loop_sock_open(s->loop, &c->sock, fd)) {
		free(c);
		close(fd);
		s->turned_away++;
		return;
	}
	c->server = s;
	c->sock.received = received;
	c->sock.sent = http_sent;
	c->sock.hung_up = hung_up;
	c->sock.closed = closed;
	c->in_timer.fired = in_timeout;
	c->out_timer.fired = out_timeout;
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	s->n_conns++;
	set_peer(c, fd);
	arm(c, s->limits.head_ms);
	http_receive(c);
}

struct http_server *http_conn_server(struct http_conn *c)
{
	return c->server;
}

void *http_exchange(struct http_conn *c)
{
	return c->exchange;
}

const char *http_peer(struct http_conn *c)
{
	return c->peer;
}
