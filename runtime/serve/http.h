/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * HTTP/1.1 for a server on the loop: connections with keep-alive, pipelining, time-outs and limits. It knows no path and no
 * JSON; what a request means is up to struct http_ops.
 *
 * An exchange begins with head() and ends when an answer is complete, by http_answer() or http_stream_end(), or with gone().
 * Exchanges of a connection follow each other, however many requests it has sent ahead. Everything in the loop's thread.
 */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include "buf.h"
#include "http_head.h"
#include "runtime/loop/loop.h"

struct http_conn;

struct http_ops {
	/*
	 * A head is in; it is valid during the call. True: go on to the body, request() follows. False: the exchange was
	 * answered in the call. *@exchange is set to what http_exchange() shall return.
	 */
	bool (*head)(struct http_conn *c, const struct http_head *h, void **exchange);
	/* The body is in. The answer may come now or later. */
	void (*request)(struct http_conn *c, struct buf *body);
	/* What came is no request, or came too slowly: answer it, in the call. http_exchange() is NULL if head() was not called. */
	void (*refuse)(struct http_conn *c, int status, const char *why);
	/* A stream's backlog fell below HTTP_STREAM_LOW. */
	void (*room)(struct http_conn *c);
	/*
	 * The connection broke, or the peer sends no more, before the exchange ended; never from within a call of this file.
	 * Answers that were given since then went nowhere. @c is not to be used any more.
	 */
	void (*gone)(struct http_conn *c);
};

struct http_limits { /* 0: the default */
	size_t body; /* bytes of a body; 4 MiB */
	size_t bodies; /* of all at once; 64 MiB */
	unsigned int conns; /* 4096 */
	unsigned int head_ms; /* from a head's first byte to its last, and to the first byte of a connection; 10 s */
	unsigned int body_ms; /* for a body, beside a second for each 16 KiB; 10 s */
	unsigned int idle_ms; /* between requests; 75 s */
	unsigned int send_ms; /* for the peer to take 64 KiB or what there is; 30 s */
};

#define HTTP_LISTENERS 4
#define HTTP_STREAM_HIGH 65536 /* bytes not yet sent, from which on nothing should be added to a stream */
#define HTTP_STREAM_LOW 16384

struct http_server {
	struct kvslab_loop *loop;
	const struct http_ops *ops;
	struct http_limits limits;
	void *data; /* the owner's */
	struct loop_listener listeners[HTTP_LISTENERS];
	unsigned int n_listeners; /* open ones */
	unsigned int next_listener;
	struct http_conn *conns;
	unsigned int n_conns;
	size_t body_bytes; /* held by all */
	bool stopping;
	uint64_t accepted, accept_failures, turned_away;
	char date[40];
	long date_at; /* s */
};

void http_server_init(struct http_server *s, struct kvslab_loop *loop, const struct http_ops *ops,
		      const struct http_limits *limits);
/* Serve on a listening socket, which becomes the loop's. -ENOSPC: too many; what the loop says. */
int http_server_listen(struct http_server *s, int fd);
/* No new connections; idle ones are closed, the others after the answer they wait for. */
void http_server_stop(struct http_server *s);
/* All connections are closed, in any state: gone() comes for those with an exchange. */
void http_server_abort(struct http_server *s);
/* Nothing of it is on the loop any more. */
bool http_server_closed(const struct http_server *s);

struct http_server *http_conn_server(struct http_conn *c);
void *http_exchange(struct http_conn *c); /* what head() set; NULL before */
const char *http_peer(struct http_conn *c); /* "127.0.0.1:4711", or "unix" */

/* @fields: further header lines, each with its CRLF, or NULL. A HEAD request gets no body. */
void http_answer(struct http_conn *c, int status, const char *type, const char *fields, const char *body, size_t n);
void http_stream(struct http_conn *c, int status, const char *type, const char *fields);
void http_stream_add(struct http_conn *c, const char *s, size_t n);
void http_stream_end(struct http_conn *c);
size_t http_backlog(const struct http_conn *c); /* bytes not yet sent */
/* A stream that cannot go on: gone() follows. */
void http_drop(struct http_conn *c);

const char *http_reason(int status);

#endif
