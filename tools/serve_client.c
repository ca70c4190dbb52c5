// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "serve_client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "msg.h"

#define LINE_MAX_BYTES ((size_t)64 << 20)

int client_target(struct client_target *t, const char *url)
{
	static const char scheme[] = "http://";
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const char *at = url + strlen(scheme), *end, *colon, *name_end;
	char name[256], port[16] = "80";
	int err;

	memset(t, 0, sizeof(*t));
	if (strncmp(url, scheme, strlen(scheme)) || strcspn(at, "/") >= sizeof(name)) {
		msg("--url is \"%s\"; give http://HOST:PORT, as in http://127.0.0.1:8080", url);
		return -1;
	}
	end = at + strcspn(at, "/");
	snprintf(t->host, sizeof(t->host), "%.*s", (int)(end - at), at);
	snprintf(t->path, sizeof(t->path), "%s", end);
	while (*t->path && t->path[strlen(t->path) - 1] == '/')
		t->path[strlen(t->path) - 1] = 0;
	if (strlen(t->path) >= 3 && !strcmp(t->path + strlen(t->path) - 3, "/v1"))
		t->path[strlen(t->path) - 3] = 0; /* as it is given to OpenAI's clients */
	name_end = *at == '[' ? strchr(t->host, ']') : NULL;
	colon = strrchr(name_end ? name_end : t->host, ':');
	if (colon)
		snprintf(port, sizeof(port), "%s", colon + 1);
	if (name_end)
		snprintf(name, sizeof(name), "%.*s", (int)(name_end - t->host - 1), t->host + 1);
	else
		snprintf(name, sizeof(name), "%.*s", (int)(colon ? (size_t)(colon - t->host) : strlen(t->host)), t->host);
	err = getaddrinfo(name, port, &hints, &t->address);
	if (err) {
		msg("--url %s: %s; check host and port", url, gai_strerror(err));
		return -1;
	}
	return 0;
}

void client_target_free(struct client_target *t)
{
	if (t->address)
		freeaddrinfo(t->address);
	t->address = NULL;
}

void client_init(struct client *c, const struct client_target *t)
{
	memset(c, 0, sizeof(*c));
	c->target = t;
	c->fd = -1;
}

void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->in_at = c->in_n = 0;
}

void client_free(struct client *c)
{
	client_close(c);
	free(c->in);
	free(c->body);
	c->in = c->body = NULL;
	c->in_cap = c->body_cap = 0;
}

static int fail(struct client *c, const char *what)
{
	snprintf(c->why, sizeof(c->why), "%s", what);
	client_close(c);
	return -1;
}

static int connect_to(struct client *c)
{
	const struct addrinfo *a;
	int one = 1;

	for (a = c->target->address; a; a = a->ai_next) {
		c->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->fd >= 0 && !connect(c->fd, a->ai_addr, a->ai_addrlen)) {
			setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			return 0;
		}
		one = errno;
		client_close(c);
		errno = one;
		one = 1;
	}
	return fail(c, strerror(errno));
}

/* More input; 0 bytes: the end. */
static ssize_t more(struct client *c)
{
	size_t cap;
	ssize_t n;
	char *in;

	if (c->in_at) {
		memmove(c->in, c->in + c->in_at, c->in_n - c->in_at);
		c->in_n -= c->in_at;
		c->in_at = 0;
	}
	if (c->in_n == c->in_cap) {
		cap = c->in_cap ? 2 * c->in_cap : 8192;
		in = cap <= LINE_MAX_BYTES ? realloc(c->in, cap) : NULL;
		if (!in)
			return fail(c, "a line of the answer is too long");
		c->in = in;
		c->in_cap = cap;
	}
	do
		n = recv(c->fd, c->in + c->in_n, c->in_cap - c->in_n, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fail(c, strerror(errno));
	c->in_n += (size_t)n;
	return n;
}

/* A line as it comes over the wire, terminated in place; NULL: why. */
static char *wire_line(struct client *c)
{
	size_t seen = 0;
	char *end, *line;

	for (;;) {
		end = c->in_n > c->in_at + seen ? memchr(c->in + c->in_at + seen, '\n', c->in_n - c->in_at - seen) : NULL;
		if (end)
			break;
		seen = c->in_n - c->in_at;
		if (more(c) <= 0) {
			if (!c->why[0])
				fail(c, "the connection ended within an answer");
			return NULL;
		}
	}
	line = c->in + c->in_at;
	c->in_at = (size_t)(end - c->in) + 1;
	if (end > line && end[-1] == '\r')
		end--;
	*end = 0;
	return line;
}

static int read_head(struct client *c)
{
	char *line = wire_line(c);

	if (!line)
		return -1;
	if (sscanf(line, "HTTP/1.%*d %d", &c->status) != 1)
		return fail(c, "the answer is not HTTP");
	c->chunked = c->has_length = c->ended = false;
	c->keep = true;
	c->left = 0;
	c->body_at = c->body_n = 0;
	while ((line = wire_line(c)) && *line) {
		if (!strncasecmp(line, "transfer-encoding:", 18))
			c->chunked = strcasestr(line, "chunked");
		else if (!strncasecmp(line, "content-length:", 15)) {
			c->has_length = true;
			c->left = strtoul(line + 15, NULL, 10);
		} else if (!strncasecmp(line, "connection:", 11) && strcasestr(line, "close"))
			c->keep = false;
	}
	return line ? c->status : -1;
}

static int send_all(struct client *c, const char *s, size_t n)
{
	ssize_t k;

	while (n) {
		k = send(c->fd, s, n, MSG_NOSIGNAL);
		if (k < 0 && errno != EINTR)
			return fail(c, strerror(errno));
		if (k > 0) {
			s += k;
			n -= (size_t)k;
		}
	}
	return 0;
}

int client_ask(struct client *c, const char *path, const char *body, size_t n)
{
	const struct client_target *t = c->target;
	bool fresh = c->fd < 0;
	char head[1200], key[512] = "";
	int len, rc;

	c->why[0] = 0;
	if (fresh && connect_to(c))
		return -1;
	if (t->key)
		snprintf(key, sizeof(key), "Authorization: Bearer %s\r\n", t->key);
	if (body)
		len = snprintf(head, sizeof(head),
			       "POST %s%s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
			       t->path, path, t->host, key, n);
	else
		len = snprintf(head, sizeof(head), "GET %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", t->path, path, t->host, key);
	rc = send_all(c, head, (size_t)len) || (body && send_all(c, body, n)) ? -1 : read_head(c);
	/* The server may have closed a connection that was kept. */
	if (rc < 0 && !fresh)
		return client_ask(c, path, body, n);
	return rc;
}

/* Bytes of the body at in + in_at that may be used, at least one; 0: its end; -1: why. */
static ssize_t available(struct client *c)
{
	char *line;

	if (c->ended)
		return 0;
	if (c->chunked && !c->left) {
		line = wire_line(c);
		if (line && !*line)
			line = wire_line(c); /* the end of the chunk before */
		if (!line)
			return -1;
		c->left = strtoul(line, NULL, 16);
		if (!c->left) {
			while ((line = wire_line(c)) && *line)
				;
			c->ended = true;
			if (line && !c->keep)
				client_close(c);
			return line ? 0 : -1;
		}
	}
	if (c->has_length && !c->left) {
		c->ended = true;
		if (!c->keep)
			client_close(c);
		return 0;
	}
	if (c->in_at == c->in_n) {
		ssize_t n = more(c);

		if (n < 0)
			return -1;
		if (!n) {
			client_close(c);
			c->ended = true;
			return c->chunked || c->has_length ? fail(c, "the connection ended within an answer") : 0;
		}
	}
	if ((c->chunked || c->has_length) && c->left < c->in_n - c->in_at)
		return (ssize_t)c->left;
	return (ssize_t)(c->in_n - c->in_at);
}

/* Decodes what there is into body. As available(). */
static ssize_t fill(struct client *c)
{
	ssize_t n = available(c);
	size_t cap = c->body_cap ? c->body_cap : 8192;
	char *body;

	if (n <= 0)
		return n;
	if (c->body_at) {
		memmove(c->body, c->body + c->body_at, c->body_n - c->body_at);
		c->body_n -= c->body_at;
		c->body_at = 0;
	}
	while (cap < c->body_n + (size_t)n + 1)
		cap *= 2;
	if (cap != c->body_cap) {
		body = cap <= LINE_MAX_BYTES ? realloc(c->body, cap) : NULL;
		if (!body)
			return fail(c, "an answer is too long");
		c->body = body;
		c->body_cap = cap;
	}
	memcpy(c->body + c->body_n, c->in + c->in_at, (size_t)n);
	c->body_n += (size_t)n;
	c->in_at += (size_t)n;
	if (c->chunked || c->has_length)
		c->left -= (size_t)n;
	return n;
}

const char *client_line(struct client *c)
{
	char *end, *line;

	for (;;) {
		end = c->body_n > c->body_at ? memchr(c->body + c->body_at, '\n', c->body_n - c->body_at) : NULL;
		if (end)
			break;
		if (fill(c) <= 0)
			return NULL; /* what is left is no line */
	}
	line = c->body + c->body_at;
	c->body_at = (size_t)(end - c->body) + 1;
	if (end > line && end[-1] == '\r')
		end--;
	*end = 0;
	return line;
}

char *client_rest(struct client *c)
{
	ssize_t n;
	char *s;

	while ((n = fill(c)) > 0)
		;
	if (n < 0)
		return NULL;
	s = malloc(c->body_n - c->body_at + 1);
	if (!s) {
		fail(c, "no memory");
		return NULL;
	}
	memcpy(s, c->body ? c->body + c->body_at : "", c->body_n - c->body_at);
	s[c->body_n - c->body_at] = 0;
	c->body_at = c->body_n = 0;
	return s;
}
