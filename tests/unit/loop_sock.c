// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Sockets on both back ends: an echo server with thousands of clients of every kind of manners. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/loop/loop.h"
#include "tests/lib/net.h"
#include "tests/lib/tap.h"

#define BUF 4096
#define CROWD 2000
#define THREADS 4

struct server;

struct conn {
	struct loop_sock sock; /* first */
	struct server *server;
	bool rude; /* closed by us, some time, in whatever state */
	bool close_called;
	bool eof;
	uint64_t sent;
	char in[BUF], out[BUF];
};

struct server {
	struct kvslab_loop *loop;
	struct loop_listener listener; /* fd given back when closed */
	uint64_t seed;
	unsigned int rude_share; /* of 100 */
	unsigned int open, accepted, errors, late;
	bool listening;
};

static void close_conn(struct conn *c)
{
	c->close_called = true;
	loop_sock_close(&c->sock);
}

static void maybe_rude(struct conn *c)
{
	if (c->rude && !c->close_called && rnd(&c->server->seed) % 8 == 0)
		close_conn(c);
}

static void received(struct loop_sock *s, int n)
{
	struct conn *c = (struct conn *)s;

	c->server->late += c->close_called;
	if (n <= 0) {
		c->eof = true;
		if (n < 0 || !c->sock.send.busy)
			close_conn(c);
		return;
	}
	/* one receive runs beside one send */
	if (c->sock.send.busy)
		abort();
	memcpy(c->out, c->in, (size_t)n);
	loop_send(s, c->out, (size_t)n);
	maybe_rude(c);
}

static void sent(struct loop_sock *s, int n)
{
	struct conn *c = (struct conn *)s;

	c->server->late += c->close_called;
	if (n < 0 || c->eof) {
		close_conn(c);
		return;
	}
	c->sent += (uint64_t)n;
	loop_recv(s, c->in, 1 + rnd(&c->server->seed) % BUF);
	maybe_rude(c);
}

static void conn_closed(struct loop_sock *s)
{
	struct conn *c = (struct conn *)s;

	c->server->late += !c->close_called;
	c->server->open--;
	free(c);
}

static void accepted(struct loop_listener *l, int fd)
{
	struct server *v = (struct server *)((char *)l - offsetof(struct server, listener));
	struct conn *c;
	int small = 4096;

	if (fd < 0) {
		v->errors++;
		return;
	}
	c = calloc(1, sizeof(*c));
	c->server = v;
	c->rude = rnd(&v->seed) % 100 < v->rude_share;
	c->sock.received = received;
	c->sock.sent = sent;
	c->sock.closed = conn_closed;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	if (loop_sock_open(v->loop, &c->sock, fd))
		abort();
	v->open++;
	v->accepted++;
	loop_recv(&c->sock, c->in, sizeof(c->in));
	maybe_rude(c);
}

static void listener_closed(struct loop_listener *l)
{
	struct server *v = (struct server *)((char *)l - offsetof(struct server, listener));

	v->listening = false;
}

static void server_open(struct server *v, enum kvslab_loop_kind kind, unsigned int entries, uint16_t *port)
{
	if (loop_open_small(&v->loop, kind, entries)) {
		ok(0, "a loop opens");
		exit(1);
	}
	v->listener.accepted = accepted;
	v->listener.closed = listener_closed;
	v->listening = true;
	if (loop_listen(v->loop, &v->listener, net_listen(port)))
		abort();
}

static void server_close(struct server *v)
{
	loop_listener_close(&v->listener);
	while (v->listening || v->open)
		kvslab_loop_step(v->loop, 1000);
	kvslab_loop_close(v->loop);
}

/* ---- many at once, from this thread ---- */

static int pump(struct server *v, int fd, char *buf, size_t n)
{
	size_t got = 0;
	int i;

	for (i = 0; i < 100000 && got < n; i++) {
		ssize_t r = recv(fd, buf + got, n - got, MSG_DONTWAIT);

		if (r > 0)
			got += (size_t)r;
		else if (r == 0 || errno != EAGAIN)
			return -1;
		else
			kvslab_loop_step(v->loop, 100);
	}
	return got == n ? 0 : -1;
}

static void test_crowd(enum kvslab_loop_kind kind, const char *name, uint64_t *seed)
{
	struct server v = { .seed = rnd(seed) };
	int fds[CROWD], before = net_fds(), i, n = 0, bad = 0;
	uint64_t word, back;
	uint16_t port;

	server_open(&v, kind, 0, &port);
	for (i = 0; i < CROWD; i++) {
		fds[i] = net_connect(port);
		bad += fds[i] < 0;
		kvslab_loop_step(v.loop, 0);
	}
	while (v.accepted < CROWD - (unsigned int)bad && n++ < 10000)
		kvslab_loop_step(v.loop, 100);
	ok(!bad && v.accepted == CROWD, "%s: %d connections are open at once (%u)", name, CROWD, v.accepted);
	for (i = 0; i < 4 * CROWD; i++) {
		int fd = fds[rnd(seed) % CROWD];

		word = rnd(seed);
		bad += send(fd, &word, sizeof(word), 0) != sizeof(word) || pump(&v, fd, (char *)&back, sizeof(back)) ||
		       back != word;
	}
	ok(!bad, "%s: each of them answers", name);
	for (i = 0; i < CROWD; i++) {
		if (rnd(seed) % 2)
			net_reset(fds[i]);
		else
			close(fds[i]);
	}
	for (n = 0; v.open && n < 10000; n++)
		kvslab_loop_step(v.loop, 100);
	ok(!v.open, "%s: all are closed when their peers are", name);
	server_close(&v);
	ok(net_fds() == before && !v.late && !v.errors, "%s: no descriptor is left, no callback came late", name);
}

/* ---- threads of clients ---- */

struct client {
	pthread_t thread;
	uint64_t seed;
	uint16_t port;
	int connections;
	bool polite; /* the server is never rude: everything comes back */
	int wrong;
};

/* Sends @n random bytes in a thread's own time and reads them back; returns bytes that came back right. */
static size_t talk(int fd, uint64_t *seed, size_t n, bool slow, bool half_close)
{
	uint64_t out_seed = *seed, in_seed = *seed;
	size_t sent = 0, got = 0, chunk, i;
	unsigned char buf[8192];
	struct pollfd p = { .fd = fd };
	ssize_t r;

	rnd(seed);
	while (got < n) {
		p.events = POLLIN | (sent < n ? POLLOUT : 0);
		if (poll(&p, 1, 20000) <= 0)
			return got;
		if (sent < n && (p.revents & POLLOUT)) {
			/* the stream is a function of the position alone: byte i is from state i */
			chunk = n - sent < sizeof(buf) ? n - sent : 1 + rnd(seed) % sizeof(buf);
			for (i = 0; i < chunk; i++)
				buf[i] = (unsigned char)((out_seed + sent + i) * 0x9e3779b97f4a7c15u >> 56);
			r = send(fd, buf, chunk, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (r < 0 && errno != EAGAIN)
				return got;
			sent += r > 0 ? (size_t)r : 0;
			if (sent == n && half_close)
				shutdown(fd, SHUT_WR);
		}
		if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
			if (slow)
				usleep(1000);
			r = recv(fd, buf, slow ? 512 : sizeof(buf), MSG_DONTWAIT);
			if (r == 0 || (r < 0 && errno != EAGAIN))
				return got;
			for (i = 0; r > 0 && i < (size_t)r; i++)
				if (buf[i] != (unsigned char)((in_seed + got + i) * 0x9e3779b97f4a7c15u >> 56))
					return SIZE_MAX;
			got += r > 0 ? (size_t)r : 0;
		}
	}
	return got;
}

static void *client(void *arg)
{
	struct client *c = arg;
	size_t n, got;
	int i, fd;
	char byte;

	for (i = 0; i < c->connections; i++) {
		unsigned int manner = (unsigned int)(rnd(&c->seed) % 8);

		fd = net_connect(c->port);
		if (fd < 0) {
			c->wrong++;
			continue;
		}
		n = 1 + (rnd(&c->seed) % 8 ? rnd(&c->seed) % 5000 : rnd(&c->seed) % 300000);
		switch (manner) {
		case 0: /* says nothing */
			break;
		case 1: /* sends and never reads */
			while (send(fd, &manner, sizeof(manner), MSG_DONTWAIT | MSG_NOSIGNAL) > 0 && n-- > 4000)
				;
			break;
		default:
			if (manner == 7 && n > 20000)
				n = 20000; /* slow ones take long */
			got = talk(fd, &c->seed, n, manner == 7, manner == 2);
			c->wrong += got == SIZE_MAX || (c->polite && got != n);
			if (c->polite && manner == 2 && got == n)
				c->wrong += recv(fd, &byte, 1, 0) != 0; /* our end came through */
		}
		if (manner == 1 || manner == 3)
			net_reset(fd);
		else
			close(fd);
	}
	return NULL;
}

static void test_threads(enum kvslab_loop_kind kind, const char *name, unsigned int entries, bool polite,
			 int connections, uint64_t *seed)
{
	struct server v = { .seed = rnd(seed), .rude_share = polite ? 0 : 50 };
	struct client c[THREADS];
	int before = net_fds(), i, wrong = 0;
	uint16_t port;

	server_open(&v, kind, entries, &port);
	memset(c, 0, sizeof(c));
	for (i = 0; i < THREADS; i++) {
		c[i].seed = rnd(seed);
		c[i].port = port;
		c[i].connections = connections / THREADS;
		c[i].polite = polite;
		if (pthread_create(&c[i].thread, NULL, client, &c[i]))
			abort();
	}
	for (i = 0; i < THREADS;)
		if (kvslab_loop_step(v.loop, 10) >= 0 && !pthread_tryjoin_np(c[i].thread, NULL))
			wrong += c[i++].wrong;
	for (i = 0; (v.open || v.accepted < (unsigned int)connections) && i < 1000; i++)
		kvslab_loop_step(v.loop, 10);
	ok(!wrong && !v.open && v.accepted == (unsigned int)connections,
	   "%s: %d connections, %s server: %d wrong, %u of %u still open", name, connections,
	   polite ? "a polite" : "a rude", wrong, v.open, v.accepted);
	server_close(&v);
	ok(net_fds() == before && !v.late, "%s: no descriptor is left, no callback came late", name);
}

/* ---- closed with everything in flight ---- */

struct busy {
	struct loop_sock sock;
	int n_closed, n_other;
};

static void busy_io(struct loop_sock *s, int n)
{
	(void)n;
	((struct busy *)s)->n_other++;
}

static void busy_hung_up(struct loop_sock *s)
{
	((struct busy *)s)->n_other++;
}

static void busy_closed(struct loop_sock *s)
{
	((struct busy *)s)->n_closed++;
}

static void test_close_busy(enum kvslab_loop_kind kind, const char *name, uint64_t *seed)
{
	static char big[1 << 22];
	struct kvslab_loop *loop;
	int before = net_fds(), pair[2], i, k, bad = 0;
	struct busy *b;
	char in[64];

	if (kvslab_loop_open(&loop, kind))
		abort();
	for (i = 0; i < 200; i++) {
		b = calloc(1, sizeof(*b));
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
			abort();
		b->sock.received = b->sock.sent = busy_io;
		b->sock.hung_up = busy_hung_up;
		b->sock.closed = busy_closed;
		if (loop_sock_open(loop, &b->sock, pair[0]))
			abort();
		bad += loop_recv(&b->sock, in, sizeof(in)) != 0;
		bad += loop_recv(&b->sock, in, sizeof(in)) != -EBUSY;
		bad += loop_send(&b->sock, big, sizeof(big)) != 0;
		bad += loop_sock_shutdown(&b->sock) != -EBUSY;
		bad += loop_watch(&b->sock) != 0;
		for (k = (int)(rnd(seed) % 4); k > 0; k--)
			kvslab_loop_step(loop, 0);
		bad += b->n_other || b->n_closed;
		loop_sock_close(&b->sock);
		loop_sock_close(&b->sock);
		bad += b->n_closed || loop_recv(&b->sock, in, 1) != -EBADF || loop_send(&b->sock, in, 1) != -EBADF;
		for (k = 0; k < 1000 && !b->n_closed; k++)
			kvslab_loop_step(loop, 100);
		bad += b->n_closed != 1 || b->n_other;
		close(pair[1]);
		free(b);
	}
	ok(!bad, "%s: closed with a receive, a send and a watch in flight", name);
	kvslab_loop_close(loop);
	ok(net_fds() == before, "%s: no descriptor is left", name);
}

/* ---- a watch sees the peer's end while bytes lie unread ---- */

static void test_watch(enum kvslab_loop_kind kind, const char *name)
{
	struct busy b = { .n_other = 0 };
	struct kvslab_loop *loop;
	uint16_t port;
	int listener = net_listen(&port), fd = net_connect(port), i;

	if (kvslab_loop_open(&loop, kind))
		abort();
	b.sock.received = b.sock.sent = busy_io;
	b.sock.hung_up = busy_hung_up;
	b.sock.closed = busy_closed;
	if (loop_sock_open(loop, &b.sock, accept(listener, NULL, NULL)) || loop_watch(&b.sock))
		abort();
	if (send(fd, "unread", 6, 0) != 6)
		abort();
	for (i = 0; i < 5; i++)
		kvslab_loop_step(loop, 2);
	ok(b.n_other == 0, "%s: bytes do not end a watch", name);
	shutdown(fd, SHUT_WR);
	for (i = 0; i < 100 && !b.n_other; i++)
		kvslab_loop_step(loop, 100);
	ok(b.n_other == 1, "%s: the peer's end does", name);
	close(fd);
	loop_sock_close(&b.sock);
	for (i = 0; i < 100 && !b.n_closed; i++)
		kvslab_loop_step(loop, 100);
	kvslab_loop_close(loop);
	close(listener);
}

/* ---- a Unix socket's listener ends without anybody having come ---- */

static int unix_closed;

static void unix_gone(struct loop_listener *l)
{
	(void)l;
	unix_closed++;
}

static void test_unix(enum kvslab_loop_kind kind, const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX }; /* a name of the system's choice, in no folder */
	struct loop_listener l;
	struct kvslab_loop *loop;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), i;

	memset(&l, 0, sizeof(l));
	l.closed = unix_gone;
	unix_closed = 0;
	if (kvslab_loop_open(&loop, kind) || bind(fd, (struct sockaddr *)&a, sizeof(sa_family_t)) || listen(fd, 5) ||
	    loop_listen(loop, &l, fd))
		abort();
	kvslab_loop_step(loop, 1);
	loop_listener_close(&l);
	for (i = 0; i < 50 && !unix_closed; i++)
		kvslab_loop_step(loop, 100);
	ok(unix_closed == 1, "%s: a Unix socket is listened on no more", name);
	if (unix_closed)
		kvslab_loop_close(loop);
}

/* ---- out of descriptors ---- */

static void test_emfile(enum kvslab_loop_kind kind, const char *name, uint64_t *seed)
{
	struct server v = { .seed = rnd(seed) };
	struct rlimit was, few;
	int fds[8], i;
	uint16_t port;
	char c = 'x', back = 0;

	server_open(&v, kind, 0, &port);
	for (i = 0; i < 8; i++)
		fds[i] = net_connect(port);
	getrlimit(RLIMIT_NOFILE, &was);
	few = was;
	few.rlim_cur = (rlim_t)net_fds(); /* no room for one more */
	setrlimit(RLIMIT_NOFILE, &few);
	for (i = 0; i < 100 && !v.errors; i++)
		kvslab_loop_step(v.loop, 10);
	setrlimit(RLIMIT_NOFILE, &was);
	ok(v.errors == 1 && v.accepted < 8, "%s: out of descriptors is told once", name);
	for (i = 0; i < 200 && v.accepted < 8; i++)
		kvslab_loop_step(v.loop, 10);
	ok(v.accepted == 8 && send(fds[7], &c, 1, 0) == 1 && !pump(&v, fds[7], &back, 1) && back == c,
	   "%s: and when there are some again, all get in", name);
	for (i = 0; i < 8; i++)
		close(fds[i]);
	server_close(&v);
}

int main(int argc, char **argv)
{
	static const struct {
		enum kvslab_loop_kind kind;
		const char *name;
	} kinds[] = { { KVSLAB_LOOP_URING, "io_uring" }, { KVSLAB_LOOP_EPOLL, "epoll" } };
	uint64_t seed = tap_seed(argc, argv);
	struct kvslab_loop *loop;
	int i, rc;

	if (net_room(2 * CROWD + 100))
		skip_all("too few descriptors are allowed (ulimit -n)");
	for (i = 0; i < 2; i++) {
		rc = kvslab_loop_open(&loop, kinds[i].kind);
		if (rc && kinds[i].kind == KVSLAB_LOOP_URING) {
			ok(1, "io_uring # SKIP refused here: %s", strerror(-rc));
			continue;
		}
		ok(!rc && kvslab_loop_kind(loop) == kinds[i].kind, "%s opens", kinds[i].name);
		kvslab_loop_close(loop);
		test_crowd(kinds[i].kind, kinds[i].name, &seed);
		test_threads(kinds[i].kind, kinds[i].name, 0, true, 600, &seed);
		test_threads(kinds[i].kind, kinds[i].name, 0, false, 600, &seed);
		test_close_busy(kinds[i].kind, kinds[i].name, &seed);
		test_watch(kinds[i].kind, kinds[i].name);
		test_unix(kinds[i].kind, kinds[i].name);
		test_emfile(kinds[i].kind, kinds[i].name, &seed);
		if (kinds[i].kind == KVSLAB_LOOP_URING)
			test_threads(kinds[i].kind, "io_uring of three entries", 3, true, 200, &seed);
	}
	return done();
}
