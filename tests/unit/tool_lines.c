// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Lines of a descriptor: any text in pieces of any size; a signal ends the wait whenever it comes. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/tap.h"
#include "tools/lines.h"

#define ROUNDS 20000
#define DEADLINE_S 120 /* of what takes a second where nothing is lost */

static volatile sig_atomic_t stop;
static struct lines input;
static atomic_uint answered;

static void on_signal(int sig)
{
	stop = sig;
	lines_wake(&input);
}

struct writer {
	int fd;
	const char *text;
	size_t n;
	uint64_t seed;
};

static void *write_pieces(void *arg)
{
	struct writer *w = arg;
	size_t off = 0, n;

	while (off < w->n) {
		n = 1 + rnd(&w->seed) % 9000;
		n = n > w->n - off ? w->n - off : n;
		if (write(w->fd, w->text + off, n) != (ssize_t)n)
			break;
		off += n;
	}
	close(w->fd);
	return NULL;
}

static void test_text(uint64_t *seed)
{
	static const char some[] = "\n\n\r\ra\0 ";
	size_t n = rnd(seed) % 60000, i, at = 0, lines = 0, line_n, length;
	char *text = malloc(n + 1);
	struct writer w = { .text = text, .n = n, .seed = rnd(seed) };
	const char *line, *end;
	bool same = true;
	pthread_t thread;
	ssize_t got = -1;
	int p[2];

	for (i = 0; i < n; i++)
		text[i] = rnd(seed) % 8 ? 'x' : some[rnd(seed) % (sizeof(some) - 1)];
	if (pipe(p) || lines_init(&input, p[0], &stop)) {
		ok(false, "no pipe");
		free(text);
		return;
	}
	w.fd = p[1];
	pthread_create(&thread, NULL, write_pieces, &w);
	while (same && (got = lines_next(&input, &line)) >= 0) {
		end = at < n ? memchr(text + at, '\n', n - at) : NULL;
		length = line_n = end ? (size_t)(end - text) - at : n - at;
		if (line_n && text[at + line_n - 1] == '\r')
			line_n--;
		same = at < n && (size_t)got == line_n && !memcmp(line, text + at, line_n);
		at += length + !!end;
		lines++;
	}
	pthread_join(thread, NULL);
	ok(same && at == n && got == -ENODATA, "%zu bytes, %zu lines", n, lines);
	ok(lines_next(&input, &line) == -ENODATA, "and the end stays the end");
	lines_free(&input);
	close(p[0]);
	free(text);
}

/* Each signal is sent when the one before has been answered: at a random place between that and the wait. */
static void *interrupt(void *arg)
{
	uint64_t seed = *(uint64_t *)arg;
	unsigned int i, spin;

	for (i = 0; i < ROUNDS; i++) {
		while (atomic_load(&answered) < i)
			if (!(rnd(&seed) % 64))
				sched_yield();
		for (spin = rnd(&seed) % 3000; spin; spin--)
			__asm__ volatile("");
		kill(getpid(), SIGINT);
	}
	return NULL;
}

static void test_signals(uint64_t *seed)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, old;
	unsigned int other = 0;
	uint64_t s = rnd(seed);
	const char *line;
	pthread_t thread;
	ssize_t got;
	int p[2];

	if (pipe(p) || lines_init(&input, p[0], &stop)) {
		ok(false, "no pipe");
		return;
	}
	alarm(DEADLINE_S); /* ends a wait that nothing else does */
	sigaction(SIGINT, &sa, &old);
	pthread_create(&thread, NULL, interrupt, &s);
	while (atomic_load(&answered) < ROUNDS) {
		got = lines_next(&input, &line);
		if (got == -EINTR && stop == SIGINT) {
			stop = 0;
			atomic_fetch_add(&answered, 1);
		} else {
			other++;
		}
	}
	pthread_join(thread, NULL);
	ok(!other, "%u signals, each at its own moment, end the wait each", ROUNDS);
	if (write(p[1], "part", 4) != 4)
		ok(false, "a pipe takes four bytes");
	raise(SIGINT);
	got = lines_next(&input, &line);
	stop = 0;
	if (write(p[1], "whole\n", 6) != 6)
		ok(false, "a pipe takes six bytes");
	ok(got == -EINTR && lines_next(&input, &line) == 9 && !memcmp(line, "partwhole", 9),
	   "a signal before the wait ends it at once, and a byte left by it wakes nobody later");
	sigaction(SIGINT, &old, NULL);
	alarm(0);
	lines_free(&input);
	lines_wake(&input);
	ok(input.wake[1] == -1, "a handler that comes too late writes nowhere");
	close(p[0]);
	close(p[1]);
}

static void test_errors(void)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *line;

	ok(!lines_init(&input, fd, &stop) && lines_next(&input, &line) == -EISDIR, "a folder: EISDIR");
	close(fd);
	ok(lines_next(&input, &line) == -EBADF, "a descriptor that is closed: EBADF");
	lines_free(&input);
}

int main(int argc, char **argv)
{
	uint64_t seed = tap_seed(argc, argv);
	int i;

	for (i = 0; i < 50; i++)
		test_text(&seed);
	test_signals(&seed);
	test_errors();
	return done();
}
