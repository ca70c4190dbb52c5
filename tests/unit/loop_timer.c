// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Timers, wake-ups from threads and signals, a loop inside another, and the choice of a back end. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/loop/loop.h"
#include "runtime/loop/timer.h"
#include "tests/lib/net.h"
#include "tests/lib/tap.h"

#define MS 1000000u

/* ---- the heap alone, beside a plain array ---- */

#define HEAP 300

static void test_heap(uint64_t *seed)
{
	static struct loop_timer t[HEAP];
	struct loop_timer *heap = NULL;
	int i, k, n, bad = 0;
	uint64_t least;

	memset(t, 0, sizeof(t));
	for (i = 0; i < 60000; i++) {
		k = (int)(rnd(seed) % HEAP);
		if (rnd(seed) % 3) {
			if (t[k].set)
				timers_remove(&t[k]);
			t[k].due = rnd(seed) % 1000;
			timers_insert(&heap, &t[k]);
		} else if (rnd(seed) % 2 && heap) {
			timers_remove(heap);
		} else if (t[k].set) {
			timers_remove(&t[k]);
		}
		least = UINT64_MAX;
		for (n = k = 0; k < HEAP; k++) {
			n += t[k].set;
			if (t[k].set && t[k].due < least)
				least = t[k].due;
		}
		bad += n ? !heap || heap->due != least : heap != NULL;
	}
	ok(!bad, "60000 timers set, moved, stopped: the first is always the first");
}

/* ---- timers on a loop ---- */

#define TIMERS 200

struct clock {
	struct kvslab_loop *loop;
	struct timed {
		struct loop_timer t;
		struct clock *clock;
		uint64_t due;
		bool wanted;
	} t[TIMERS];
	uint64_t seed, last;
	int fired, early, unwanted, disorder;
};

static void fired(struct loop_timer *t)
{
	struct timed *d = (struct timed *)t, *other;
	struct clock *c = d->clock;
	uint64_t now = loop_now(c->loop);

	c->fired++;
	c->early += now < d->due;
	c->unwanted += !d->wanted;
	c->disorder += d->due < c->last;
	c->last = d->due;
	d->wanted = false;
	/* now and then another is stopped, or set once more for later */
	other = &c->t[rnd(&c->seed) % TIMERS];
	if (other->wanted && rnd(&c->seed) % 4 == 0) {
		loop_timer_stop(&other->t);
		other->wanted = false;
	} else if (!other->wanted && rnd(&c->seed) % 4 == 0) {
		other->due = now + MS + rnd(&c->seed) % (20 * MS);
		other->wanted = true;
		loop_timer_set(c->loop, &other->t, other->due);
	}
}

static void test_timers(enum kvslab_loop_kind kind, const char *name, uint64_t *seed)
{
	struct clock *c = calloc(1, sizeof(*c));
	uint64_t start, now;
	int i, left = 1;

	c->seed = rnd(seed);
	if (kvslab_loop_open(&c->loop, kind))
		abort();
	start = now = loop_now(c->loop);
	for (i = 0; i < TIMERS; i++) {
		c->t[i].clock = c;
		c->t[i].t.fired = fired;
		c->t[i].due = now + rnd(seed) % (100 * MS);
		c->t[i].wanted = true;
		loop_timer_set(c->loop, &c->t[i].t, c->t[i].due);
		if (rnd(seed) % 4 == 0) {
			c->t[i].due = now + rnd(seed) % (100 * MS);
			loop_timer_set(c->loop, &c->t[i].t, c->t[i].due);
		}
	}
	while (left && loop_now(c->loop) - start < 20000 * (uint64_t)MS) {
		kvslab_loop_step(c->loop, -1);
		for (left = i = 0; i < TIMERS; i++)
			left += c->t[i].wanted;
	}
	ok(!left && c->fired > TIMERS / 2 && !c->early && !c->unwanted && !c->disorder,
	   "%s: %d timers fired, %d early, %d that were stopped, %d out of order", name, c->fired, c->early, c->unwanted,
	   c->disorder);
	start = loop_now(c->loop);
	kvslab_loop_step(c->loop, 20);
	now = loop_now(c->loop) - start;
	ok(now >= 19 * MS && now < 5000 * (uint64_t)MS, "%s: a step without anything to do waits as long as it was told",
	   name);
	kvslab_loop_close(c->loop);
	free(c);
}

/* ---- wake-ups ---- */

#define WAKERS 4
#define WAKES 20000

struct counted {
	struct loop_wake wake;
	unsigned int posted, seen; /* posted: atomic */
	int calls;
};

static void woken(struct loop_wake *w)
{
	struct counted *c = (struct counted *)w;

	c->calls++;
	c->seen = __atomic_load_n(&c->posted, __ATOMIC_ACQUIRE);
}

static void *waker(void *arg)
{
	struct counted *c = arg;
	int i;

	for (i = 0; i < WAKES; i++) {
		__atomic_add_fetch(&c->posted, 1, __ATOMIC_RELEASE);
		loop_wake(&c->wake);
	}
	return NULL;
}

static struct counted *by_signal;

static void on_signal(int sig)
{
	(void)sig;
	by_signal->posted++;
	loop_wake(&by_signal->wake);
}

static void test_wakes(enum kvslab_loop_kind kind, const char *name)
{
	struct counted c[2] = { { .posted = 0 }, { .posted = 0 } };
	pthread_t threads[WAKERS];
	struct kvslab_loop *loop;
	int i;

	if (kvslab_loop_open(&loop, kind))
		abort();
	for (i = 0; i < 2; i++) {
		c[i].wake.woken = woken;
		loop_wake_open(loop, &c[i].wake);
	}
	for (i = 0; i < WAKERS; i++)
		if (pthread_create(&threads[i], NULL, waker, &c[i % 2]))
			abort();
	/* Waits without a limit: a lost wake-up hangs here. */
	alarm(60);
	while (c[0].seen < WAKERS / 2 * WAKES || c[1].seen < WAKERS / 2 * WAKES)
		kvslab_loop_step(loop, -1);
	alarm(0);
	for (i = 0; i < WAKERS; i++)
		pthread_join(threads[i], NULL);
	ok(1, "%s: none of %d wake-ups from %d threads is lost (%d and %d calls)", name, WAKERS * WAKES, WAKERS,
	   c[0].calls, c[1].calls);
	kvslab_loop_step(loop, 0);
	by_signal = &c[0];
	c[0].calls = 0;
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	raise(SIGUSR1);
	kvslab_loop_step(loop, 10000);
	kvslab_loop_step(loop, 0);
	ok(c[0].calls == 1, "%s: two from a signal handler are one call", name);
	loop_wake_close(&c[0].wake);
	loop_wake_close(&c[1].wake);
	kvslab_loop_close(loop);
}

/* ---- inside a loop of the host's own ---- */

struct guest {
	struct kvslab_loop *loop;
	struct loop_sock sock;
	struct loop_timer timer;
	char in[64];
	int echoed, ticks, closed;
};

static void guest_received(struct loop_sock *s, int n)
{
	struct guest *g = (struct guest *)((char *)s - offsetof(struct guest, sock));

	if (n <= 0)
		loop_sock_close(s);
	else
		loop_send(s, g->in, (size_t)n);
}

static void guest_sent(struct loop_sock *s, int n)
{
	struct guest *g = (struct guest *)((char *)s - offsetof(struct guest, sock));

	g->echoed += n;
	loop_recv(s, g->in, sizeof(g->in));
}

static void guest_closed(struct loop_sock *s)
{
	((struct guest *)((char *)s - offsetof(struct guest, sock)))->closed = 1;
}

static void guest_tick(struct loop_timer *t)
{
	struct guest *g = (struct guest *)((char *)t - offsetof(struct guest, timer));

	if (++g->ticks < 5)
		loop_timer_set(g->loop, t, loop_now(g->loop) + 5 * MS);
}

/* The host waits for its pipe and for the loop's descriptor, never in the loop; each byte of the pipe is sent on. */
static void test_embedded(enum kvslab_loop_kind kind, const char *name)
{
	struct guest g = { .echoed = 0 };
	int before = net_fds(), pair[2], pipes[2], sent = 0, back = 0, i;
	struct pollfd p[3];
	char c;

	if (kvslab_loop_open(&g.loop, kind) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(pipes))
		abort();
	g.sock.received = guest_received;
	g.sock.sent = guest_sent;
	g.sock.closed = guest_closed;
	g.timer.fired = guest_tick;
	/* all started outside of a step */
	if (loop_sock_open(g.loop, &g.sock, pair[0]) || loop_recv(&g.sock, g.in, sizeof(g.in)))
		abort();
	loop_timer_set(g.loop, &g.timer, loop_now(g.loop) + 5 * MS);
	p[0] = (struct pollfd){ .fd = kvslab_loop_fd(g.loop), .events = POLLIN };
	p[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = pair[1], .events = POLLIN };
	for (i = 0; i < 10000 && (back < 100 || g.ticks < 5); i++) {
		if (sent == back && sent < 100 && write(pipes[1], "x", 1) != 1)
			abort();
		if (poll(p, 3, 5000) < 0 && errno != EINTR)
			break;
		if (!p[0].revents && !p[1].revents && !p[2].revents)
			break; /* five seconds of nothing: the loop's descriptor did not tell */
		if (p[1].revents && read(pipes[0], &c, 1) == 1 && send(pair[1], &c, 1, 0) == 1)
			sent++;
		if (p[2].revents && recv(pair[1], &c, 1, MSG_DONTWAIT) == 1)
			back++;
		if (p[0].revents && kvslab_loop_step(g.loop, 0) < 0)
			break;
	}
	ok(back == 100 && g.echoed == 100 && g.ticks == 5, "%s: runs inside poll(): %d bytes, %d ticks", name, back,
	   g.ticks);
	loop_sock_close(&g.sock); /* outside of a step too */
	for (i = 0; i < 100 && !g.closed && poll(p, 1, 5000) > 0; i++)
		kvslab_loop_step(g.loop, 0);
	ok(g.closed, "%s: and closes there", name);
	kvslab_loop_close(g.loop);
	close(pair[1]);
	close(pipes[0]);
	close(pipes[1]);
	ok(net_fds() == before, "%s: no descriptor is left", name);
}

/* ---- where io_uring is refused ---- */

static int refuse_uring(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static void test_refused(void)
{
	struct kvslab_loop *loop;
	int status = 0, before;
	pid_t pid = fork();

	if (!pid) {
		if (refuse_uring())
			_exit(77);
		before = net_fds();
		if (kvslab_loop_open(&loop, KVSLAB_LOOP_URING) != -EPERM)
			_exit(1);
		if (kvslab_loop_open(&loop, KVSLAB_LOOP_AUTO) || kvslab_loop_kind(loop) != KVSLAB_LOOP_EPOLL)
			_exit(2);
		kvslab_loop_close(loop);
		_exit(net_fds() == before ? 0 : 3);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		ok(1, "refused io_uring # SKIP no seccomp filter can be set here");
	else
		ok(WIFEXITED(status) && !WEXITSTATUS(status), "where io_uring is refused, the choice is epoll (%d)",
		   WEXITSTATUS(status));
	ok(kvslab_loop_open(NULL, KVSLAB_LOOP_AUTO) == -EINVAL &&
		   kvslab_loop_open(&loop, (enum kvslab_loop_kind)9) == -EINVAL,
	   "arguments out of range are refused");
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

	test_refused();
	test_heap(&seed);
	for (i = 0; i < 2; i++) {
		rc = kvslab_loop_open(&loop, kinds[i].kind);
		if (rc && kinds[i].kind == KVSLAB_LOOP_URING) {
			ok(1, "io_uring # SKIP refused here: %s", strerror(-rc));
			continue;
		}
		kvslab_loop_close(loop);
		test_timers(kinds[i].kind, kinds[i].name, &seed);
		test_wakes(kinds[i].kind, kinds[i].name);
		test_embedded(kinds[i].kind, kinds[i].name);
	}
	return done();
}
