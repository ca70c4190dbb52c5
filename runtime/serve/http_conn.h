/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* A connection inside. */
#ifndef SERVE_HTTP_CONN_H
#define SERVE_HTTP_CONN_H

#include "http.h"
#include "http_body.h"

enum http_state {
	HTTP_IN_HEAD,
	HTTP_IN_BODY,
	HTTP_IN_EXCHANGE, /* the body is in, no answer yet */
	HTTP_IN_STREAM, /* the answer has begun */
	HTTP_ENDING, /* answered for the last time: flush, then wait for the peer's end */
};

struct http_conn {
	struct loop_sock sock; /* first */
	struct loop_timer in_timer, out_timer;
	struct http_server *server;
	struct http_conn *prev, *next; /* of the server's */
	enum http_state state;
	void *exchange;
	bool in_exchange; /* head() was called, no answer is complete */
	bool advancing; /* in http_advance(), further up the stack */
	bool keep; /* alive after this exchange */
	bool http11, head_only, chunked; /* of the answer */
	bool eof; /* the peer sends no more */
	bool timing_head; /* in_timer counts the head, no more the pause before it */
	bool closing;
	/* Input [in_at, in_n) is not used yet; a receive in flight goes to in + in_n. */
	char *in;
	size_t in_at, in_n, in_cap;
	struct http_scan scan;
	struct http_body body_state;
	struct buf body;
	size_t body_counted; /* bytes of it in server->body_bytes */
	uint64_t body_start, body_got; /* ns, bytes */
	/* Output: what is in flight, then what comes after it. */
	struct buf sending, out;
	size_t sent_at;
	char peer[56];
};

/* http_conn.c: a connection's life and its input. */
void http_conn_open(struct http_server *s, int fd);
void http_conn_close(struct http_conn *c); /* gone() follows at the end of the loop's step */
/* Use the input as far as it goes. */
void http_advance(struct http_conn *c);
/* After an answer: the next request, or the end. */
void http_next(struct http_conn *c);
/* See to it that a receive or a watch is in flight, as the state wants. */
void http_receive(struct http_conn *c);
void http_linger(struct http_conn *c);

/* http_answer.c: its output. */
void http_flush(struct http_conn *c);
void http_sent(struct loop_sock *sock, int n);

#endif
