/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* A client's side of HTTP, blocking: as much of it as a benchmark of servers needs. One connection, one thread. */
#ifndef TOOLS_SERVE_CLIENT_H
#define TOOLS_SERVE_CLIENT_H

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>

struct client_target {
	struct addrinfo *address; /* owned */
	char host[256]; /* for the Host line */
	char path[256]; /* before /v1, without a slash at the end */
	const char *key; /* NULL: none */
};

/* @url: http://HOST[:PORT][/PATH]. -1 after a message. */
int client_target(struct client_target *t, const char *url);
void client_target_free(struct client_target *t);

struct client {
	const struct client_target *target;
	int fd; /* -1: not connected */
	char *in;
	size_t in_at, in_n, in_cap;
	/* of the answer that is being read */
	int status;
	bool chunked, keep, has_length;
	size_t left; /* of the body or of the chunk */
	bool ended;
	char *body; /* decoded and not yet given out: [body_at, body_n) */
	size_t body_at, body_n, body_cap;
	char why[160]; /* what went wrong */
};

void client_init(struct client *c, const struct client_target *t);
void client_close(struct client *c);
void client_free(struct client *c);
/* Sends a request (@body NULL: GET) and reads the head of its answer: the status, or -1 with why set. */
int client_ask(struct client *c, const char *path, const char *body, size_t n);
/* The next line of the answer's body, without its end; NULL: no more, or why is set. Valid until the next call. */
const char *client_line(struct client *c);
/* All that is left of the body, terminated; to be freed. NULL: why. */
char *client_rest(struct client *c);

#endif
