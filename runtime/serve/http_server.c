// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_conn.h"

static void set_default(unsigned int *v, unsigned int value)
{
	if (!*v)
		*v = value;
}

void http_server_init(struct http_server *s, struct kvslab_loop *loop, const struct http_ops *ops,
		      const struct http_limits *limits)
{
	memset(s, 0, sizeof(*s));
	s->loop = loop;
	s->ops = ops;
	if (limits)
		s->limits = *limits;
	if (!s->limits.body)
		s->limits.body = 4u << 20;
	if (!s->limits.bodies)
		s->limits.bodies = 64u << 20;
	set_default(&s->limits.conns, 4096);
	set_default(&s->limits.head_ms, 10000);
	set_default(&s->limits.body_ms, 10000);
	set_default(&s->limits.idle_ms, 75000);
	set_default(&s->limits.send_ms, 30000);
}

/* Too many: say so, as far as that goes without waiting. */
static void turn_away(struct http_server *s, int fd)
{
	static const char body[] = "{\"error\":{\"message\":\"too many connections are open; try again\","
				   "\"type\":\"server_error\",\"param\":null,\"code\":null}}\n";
	char text[512];
	int n;

	s->turned_away++;
	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 503 %s\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
		     "Content-Length: %zu\r\n\r\n%s",
		     http_reason(503), sizeof(body) - 1, body);
	send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

static void accepted(struct loop_listener *l, int fd)
{
	struct http_server *s = l->owner;

	if (fd < 0) {
		s->accept_failures++;
		return;
	}
	s->accepted++;
	if (s->n_conns >= s->limits.conns)
		turn_away(s, fd);
	else
		http_conn_open(s, fd);
}

static void listener_closed(struct loop_listener *l)
{
	struct http_server *s = l->owner;

	s->n_listeners--;
}

int http_server_listen(struct http_server *s, int fd)
{
	struct loop_listener *l;
	int rc;

	if (s->next_listener == HTTP_LISTENERS)
		return -ENOSPC;
	l = &s->listeners[s->next_listener];
	l->owner = s;
	l->accepted = accepted;
	l->closed = listener_closed;
	rc = loop_listen(s->loop, l, fd);
	if (rc)
		return rc;
	s->next_listener++;
	s->n_listeners++;
	return 0;
}

void http_server_stop(struct http_server *s)
{
	struct http_conn *c;
	unsigned int i;

	if (s->stopping)
		return;
	s->stopping = true;
	for (i = 0; i < s->next_listener; i++)
		loop_listener_close(&s->listeners[i]);
	for (c = s->conns; c; c = c->next)
		if (c->state == HTTP_IN_HEAD && !c->in_exchange && c->in_n == c->in_at && !http_backlog(c))
			http_conn_close(c);
}

void http_server_abort(struct http_server *s)
{
	struct http_conn *c;

	http_server_stop(s);
	for (c = s->conns; c; c = c->next)
		http_conn_close(c);
}

bool http_server_closed(const struct http_server *s)
{
	return !s->n_conns && !s->n_listeners;
}
