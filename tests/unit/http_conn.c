// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Connections on both back ends: a small server with paths that answer at once, later, and in streams. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/serve/http.h"
#include "tests/lib/net.h"
#include "tests/lib/tap.h"

#define MS 1000000u

static enum kvslab_loop_kind kind;
static const char *name;

/* ---- the server ---- */

struct job { /* an exchange */
	struct loop_timer timer;
	struct http_conn *c;
	struct job *next;
	size_t stream; /* bytes still to come */
	char path[32];
	bool waiting;
};

static struct {
	struct kvslab_loop *loop;
	struct http_server http;
	pthread_t thread;
	struct loop_wake stop;
	uint16_t port;
	unsigned int gone, refused, jobs;
	size_t most_backlog;
} v;

static void job_free(struct job *j)
{
	loop_timer_stop(&j->timer);
	v.jobs--;
	free(j);
}

static void later(struct loop_timer *t)
{
	struct job *j = (struct job *)t;
	struct http_conn *c = j->c;

	job_free(j);
	http_answer(c, 200, "text/plain", NULL, "later", 5);
}

static bool head(struct http_conn *c, const struct http_head *h, void **exchange)
{
	struct job *j;

	if (http_text_is(&h->path, "/early")) {
		http_answer(c, 404, "text/plain", "X-Early: 1\r\n", "no", 2);
		return false;
	}
	j = calloc(1, sizeof(*j));
	j->c = c;
	j->timer.fired = later;
	snprintf(j->path, sizeof(j->path), "%.*s", (int)h->path.n, h->path.s);
	v.jobs++;
	*exchange = j;
	return true;
}

static void feed(struct job *j)
{
	static char piece[4096];
	struct http_conn *c = j->c;
	size_t n;

	memset(piece, '#', sizeof(piece));
	while (j->stream && http_backlog(c) < HTTP_STREAM_HIGH) {
		n = j->stream < sizeof(piece) ? j->stream : sizeof(piece);
		j->stream -= n;
		http_stream_add(c, piece, n);
	}
	if (http_backlog(c) > v.most_backlog)
		v.most_backlog = http_backlog(c);
	if (!j->stream) {
		job_free(j);
		http_stream_end(c);
	}
}

static void request(struct http_conn *c, struct buf *body)
{
	struct job *j = http_exchange(c);

	if (!strcmp(j->path, "/echo")) {
		job_free(j);
		http_answer(c, 200, "text/plain", NULL, body->b, body->n);
	} else if (!strcmp(j->path, "/later")) {
		loop_timer_set(v.loop, &j->timer, loop_now(v.loop) + 20 * MS);
	} else if (!strcmp(j->path, "/never")) {
		j->waiting = true;
	} else if (!strncmp(j->path, "/stream/", 8)) {
		j->stream = strtoul(j->path + 8, NULL, 10);
		http_stream(c, 200, "text/plain", NULL);
		feed(j);
	} else {
		job_free(j);
		http_answer(c, 200, "text/plain", NULL, "hello", 5);
	}
}

static void refuse(struct http_conn *c, int status, const char *why)
{
	struct job *j = http_exchange(c);

	v.refused++;
	if (j)
		job_free(j);
	http_answer(c, status, "text/plain", NULL, why, strlen(why));
}

static void room(struct http_conn *c)
{
	feed(http_exchange(c));
}

static void gone(struct http_conn *c)
{
	v.gone++;
	job_free(http_exchange(c));
}

static const struct http_ops ops = { head, request, refuse, room, gone };

static bool stopping;

static void on_stop(struct loop_wake *w)
{
	(void)w;
	stopping = true;
}

static void *serve(void *arg)
{
	(void)arg;
	while (!stopping)
		kvslab_loop_step(v.loop, -1);
	http_server_abort(&v.http);
	while (!http_server_closed(&v.http))
		kvslab_loop_step(v.loop, 1000);
	return NULL;
}

static void start(const struct http_limits *limits)
{
	memset(&v, 0, sizeof(v));
	stopping = false;
	if (kvslab_loop_open(&v.loop, kind))
		abort();
	http_server_init(&v.http, v.loop, &ops, limits);
	if (http_server_listen(&v.http, net_listen(&v.port)))
		abort();
	v.stop.woken = on_stop;
	loop_wake_open(v.loop, &v.stop);
	if (pthread_create(&v.thread, NULL, serve, NULL))
		abort();
}

static int stop(void)
{
	loop_wake(&v.stop);
	pthread_join(v.thread, NULL);
	loop_wake_close(&v.stop);
	kvslab_loop_close(v.loop);
	return v.jobs == 0 && v.http.body_bytes == 0;
}

/* ---- the client ---- */

static int put(int fd, const char *s, size_t n)
{
	return send(fd, s, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

static int say(int fd, const char *s)
{
	return put(fd, s, strlen(s));
}

/* What comes within @ms, at most @cap - 1 bytes, until the end or, with @until, until that is there. *end: the peer closed. */
static size_t hear(int fd, char *buf, size_t cap, int ms, const char *until, bool *end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;
	ssize_t r;

	*end = false;
	buf[0] = 0;
	while (n + 1 < cap && poll(&p, 1, ms) > 0) {
		r = recv(fd, buf + n, cap - 1 - n, 0);
		if (r <= 0) {
			*end = true;
			break;
		}
		n += (size_t)r;
		buf[n] = 0;
		if (until && strstr(buf, until))
			break;
	}
	return n;
}

static int count(const char *s, const char *what)
{
	int n = 0;

	for (s = strstr(s, what); s; s = strstr(s + 1, what))
		n++;
	return n;
}

/* Sends @s and looks whether the answers are @want statuses in this order and then, with @close, the end. */
static void check(const char *what, const char *s, size_t n, bool close_after, int n_want, ...)
{
	static char buf[1 << 20];
	char status[32], *at = buf;
	int fd = net_connect(v.port), good = 1, i;
	bool end;
	va_list ap;

	put(fd, s, n);
	hear(fd, buf, sizeof(buf), close_after ? 8000 : 300, NULL, &end);
	va_start(ap, n_want);
	for (i = 0; i < n_want; i++) {
		snprintf(status, sizeof(status), "HTTP/1.1 %d ", va_arg(ap, int));
		at = at ? strstr(at, status) : NULL;
		if (at)
			at++;
	}
	va_end(ap);
	good = at && count(buf, "HTTP/1.1 ") == n_want && end == close_after;
	if (!good)
		printf("# %s\n", buf);
	ok(good, "%s: %s", name, what);
	close(fd);
}

#define CHECK(what, s, ...) check(what, s, sizeof(s) - 1, __VA_ARGS__)
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define LAST(path) "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static void test_answers(void)
{
	static const struct http_limits limits = { .body = 1000, .head_ms = 300, .body_ms = 300, .idle_ms = 800 };
	static char buf[1 << 16];
	int fd, i, bad;
	bool end;

	start(&limits);
	CHECK("one request", GET("/"), false, 1, 200);
	CHECK("the last", LAST("/"), true, 1, 200);
	CHECK("HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", true, 1, 200);
	CHECK("pipelined, at once and later, in order", GET("/") GET("/later") GET("/") LAST("/stream/100"), true, 4,
	      200, 200, 200, 200);
	CHECK("a body", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345" LAST("/"), true, 2, 200, 200);
	CHECK("chunks", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n" LAST("/"),
	      true, 2, 200, 200);
	CHECK("a body after an early answer", "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345" GET("/"),
	      true, 1, 404);
	CHECK("early without a body", GET("/early") GET("/"), false, 2, 404, 200);
	CHECK("a body that is too long", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", true, 1, 413);
	CHECK("chunks that are too long", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
	      true, 1, 413);
	CHECK("broken chunks", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n1234\r\n", true, 1,
	      400);
	CHECK("garbage after a request", GET("/") "\x16\x03\x01\x02", true, 2, 200, 400);
	CHECK("a body longer than announced", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n12345\r\n\r\n",
	      true, 2, 200, 400);
	CHECK("a head that does not come", "GET / HT", true, 1, 408);
	CHECK("a body that does not come", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n123", true, 1, 408);
	CHECK("nothing", "", true, 0);
	CHECK("a bare line feed", "GET / HTTP/1.1\nHost: a\n\n", true, 1, 400);

	fd = net_connect(v.port);
	say(fd, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
	hear(fd, buf, sizeof(buf), 200, NULL, &end);
	ok(strstr(buf, "Content-Length: 5\r\n\r\n") && !strstr(buf, "hello") && !end, "%s: HEAD has no body", name);
	close(fd);

	fd = net_connect(v.port);
	say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	hear(fd, buf, sizeof(buf), 200, "\r\n\r\n", &end);
	bad = strcmp(buf, "HTTP/1.1 100 Continue\r\n\r\n");
	say(fd, "12345");
	hear(fd, buf, sizeof(buf), 1000, "12345", &end);
	ok(!bad && strstr(buf, "HTTP/1.1 200") && strstr(buf, "12345"), "%s: 100-continue", name);
	close(fd);

	fd = net_connect(v.port);
	say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\nExpect: 100-continue\r\n\r\n");
	hear(fd, buf, sizeof(buf), 200, "\r\n\r\n", &end);
	ok(strstr(buf, "HTTP/1.1 413") == buf, "%s: no 100-continue for what is too long", name);
	close(fd);

	/* A large body is refused while it is being sent, and the refusal can be read after all of it was sent. */
	fd = net_connect(v.port);
	bad = say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n");
	memset(buf, 'b', sizeof(buf));
	for (i = 0; i < 61; i++)
		bad += put(fd, buf, sizeof(buf));
	hear(fd, buf, sizeof(buf), 3000, NULL, &end);
	ok(!bad && strstr(buf, "HTTP/1.1 413") && end, "%s: a refusal outlives the body that earned it", name);
	close(fd);

	fd = net_connect(v.port);
	say(fd, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	hear(fd, buf, sizeof(buf), 3000, NULL, &end);
	ok(strstr(buf, "hello") && end, "%s: an idle connection ends", name);
	close(fd);

	/* Byte for byte, several requests. */
	fd = net_connect(v.port);
	for (i = 0; i < (int)sizeof(GET("/")) - 1; i++) {
		say(fd, (char[2]){ GET("/")[i], 0 });
		if (i % 8 == 0)
			usleep(1000);
	}
	hear(fd, buf, sizeof(buf), 1000, "hello", &end);
	ok(strstr(buf, "hello") != NULL, "%s: a request in single bytes", name);
	close(fd);
	ok(stop(), "%s: nothing is left", name);
}

static void test_flood(void)
{
	static char buf[1 << 22];
	char *all = malloc(1 << 20);
	int fd, i, n = 3000, good;
	size_t len = 0, sent = 0, got = 0;
	struct pollfd p;
	bool end;

	start(NULL);
	for (i = 0; i < n; i++)
		len += (size_t)sprintf(all + len, "%s", GET("/"));
	fd = net_connect(v.port);
	p = (struct pollfd){ .fd = fd, .events = POLLIN | POLLOUT };
	while (got + 1 < sizeof(buf) && poll(&p, 1, 3000) > 0) {
		ssize_t r;

		if (sent < len && (p.revents & POLLOUT)) {
			r = send(fd, all + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
			sent += r > 0 ? (size_t)r : 0;
		}
		if (sent == len)
			p.events = POLLIN;
		if (p.revents & POLLIN) {
			r = recv(fd, buf + got, sizeof(buf) - 1 - got, MSG_DONTWAIT);
			if (r <= 0)
				break;
			got += (size_t)r;
			buf[got] = 0;
			if (count(buf + (got > 2 * len ? got - 2 * len : 0), "hello") == n)
				break;
		}
		if (got > 100 && count(buf, "hello") == n)
			break;
	}
	good = count(buf, "hello");
	ok(good == n, "%s: %d requests sent ahead: %d answers", name, n, good);
	close(fd);

	/* The same from somebody who does not read: his requests wait in his own socket, others are served. */
	fd = net_connect(v.port);
	i = 4096;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &i, sizeof(i));
	for (i = 0, sent = 0; i < 2000 && sent < (64u << 20); i++) {
		ssize_t r = send(fd, all, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (r > 0)
			sent += (size_t)r;
		else
			usleep(1000);
	}
	ok(sent < (64u << 20), "%s: who does not read is not read after %zu bytes", name, sent);
	i = net_connect(v.port);
	say(i, GET("/"));
	hear(i, buf, sizeof(buf), 3000, "hello", &end);
	ok(strstr(buf, "hello") != NULL, "%s: others are served meanwhile", name);
	close(i);
	close(fd);
	free(all);
	ok(stop(), "%s: nothing is left", name);
}

static void test_streams(void)
{
	static const struct http_limits limits = { .send_ms = 600 };
	static char buf[1 << 16];
	int fd, slow, i, small = 4096, bad = 0;
	unsigned int gone_before;
	size_t got = 0;
	ssize_t r;
	bool end;

	start(&limits);
	fd = net_connect(v.port);
	say(fd, "GET /stream/100000 HTTP/1.0\r\n\r\n");
	while ((r = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (i = 0; i < r; i++)
			got += buf[i] == '#';
	}
	ok(got == 100000, "%s: a stream to HTTP/1.0 ends with the connection", name);
	close(fd);

	slow = net_connect(v.port);
	setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	say(slow, GET("/stream/100000000"));
	usleep(100000);
	for (i = 0; i < 200; i++) {
		fd = net_connect(v.port);
		say(fd, LAST("/stream/10000"));
		for (got = 0; (r = recv(fd, buf, sizeof(buf), 0)) > 0; got += (size_t)r)
			;
		bad += got < 10000;
		close(fd);
	}
	ok(!bad, "%s: 200 streams beside one that is not read", name);
	ok(v.most_backlog < HTTP_STREAM_HIGH + 5000, "%s: at most %zu bytes wait for it", name, v.most_backlog);
	gone_before = v.gone;
	for (i = 0; i < 30 && v.gone == gone_before; i++)
		usleep(100000);
	ok(v.gone == gone_before + 1, "%s: and then it is given up", name);
	close(slow);

	/* Closed and half-closed while an answer is awaited. */
	gone_before = v.gone;
	fd = net_connect(v.port);
	say(fd, GET("/never"));
	usleep(50000);
	close(fd);
	fd = net_connect(v.port);
	say(fd, GET("/never"));
	usleep(50000);
	shutdown(fd, SHUT_WR);
	hear(fd, buf, sizeof(buf), 1000, NULL, &end);
	close(fd);
	fd = net_connect(v.port);
	say(fd, GET("/never"));
	for (i = 0; i < 1000; i++)
		if (send(fd, buf, 1000, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
	usleep(50000);
	net_reset(fd);
	for (i = 0; i < 30 && v.gone < gone_before + 3; i++)
		usleep(100000);
	ok(end && v.gone == gone_before + 3, "%s: closed, half-closed and reset while waiting is noticed (%u)", name,
	   v.gone - gone_before);
	ok(stop(), "%s: nothing is left", name);
}

static void test_many(uint64_t *seed)
{
	static const struct http_limits limits = { .conns = 100, .bodies = 100000, .head_ms = 60000 };
	static char buf[1 << 16];
	int before, fds[130], i, ok200 = 0, ok503 = 0;
	bool end;

	start(&limits);
	before = net_fds();
	for (i = 0; i < 130; i++)
		fds[i] = net_connect(v.port);
	for (i = 129; i >= 0; i--) {
		say(fds[i], GET("/"));
		hear(fds[i], buf, sizeof(buf), 3000, "\r\n\r\n", &end);
		ok200 += strstr(buf, "HTTP/1.1 200") == buf;
		ok503 += strstr(buf, "HTTP/1.1 503") == buf;
		close(fds[i]);
	}
	/* those turned away may have been reset by their own request */
	ok(ok200 == 100 && ok503 <= 30, "%s: of 130 connections 100 are served, %d told why not", name, ok503);
	for (i = 0; i < 4; i++) {
		fds[i] = net_connect(v.port);
		say(fds[i], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
		put(fds[i], buf, 40000);
		usleep(50000);
	}
	ok503 = 0;
	for (i = 0; i < 4; i++) {
		hear(fds[i], buf, sizeof(buf), 200, "\r\n\r\n", &end);
		ok503 += strstr(buf, "HTTP/1.1 503") == buf;
		close(fds[i]);
	}
	ok(ok503 >= 1 && ok503 < 4, "%s: all bodies together have a limit (%d refused)", name, ok503);
	/* Random bytes: an error or the end, never silence for long, and never a wrong answer. */
	for (i = 0; i < 300; i++) {
		size_t n = 1 + rnd(seed) % 200, j;

		fds[0] = net_connect(v.port);
		for (j = 0; j < n; j++)
			buf[j] = (char)(rnd(seed) % 4 ? GET("/")[j % (sizeof(GET("/")) - 1)] : (char)rnd(seed));
		put(fds[0], buf, n);
		shutdown(fds[0], SHUT_WR);
		hear(fds[0], buf, sizeof(buf), 3000, NULL, &end);
		if (!end)
			break;
		close(fds[0]);
	}
	ok(i == 300, "%s: random bytes end", name);
	for (i = 0; i < 50 && net_fds() != before; i++)
		usleep(20000);
	ok(net_fds() == before, "%s: no descriptor is left", name);
	ok(stop(), "%s: nothing is left", name);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	struct kvslab_loop *loop;
	int i, rc;

	for (i = 0; i < 2; i++) {
		kind = i ? KVSLAB_LOOP_EPOLL : KVSLAB_LOOP_URING;
		name = i ? "epoll" : "io_uring";
		rc = kvslab_loop_open(&loop, kind);
		if (rc && !i) {
			ok(1, "io_uring # SKIP refused here: %s", strerror(-rc));
			continue;
		}
		kvslab_loop_close(loop);
		test_answers();
		test_flood();
		test_streams();
		test_many(&seed);
	}
	return done();
}
