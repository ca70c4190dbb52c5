// SPDX-License-Identifier: GPL-2.0
/*
 * Descriptors that travel: a client whose descriptor was sent over a socket lives while anybody has
 * it, be it only the socket, and its pages with it; then it ends.
 */
#include <sys/socket.h>

#include "ks.h"

#define SIZE (64u << 10)
#define PAGES 8

static int sock[2];
static u64 *pages; /* shared */

static int send_fd(int sk, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sk, &m, 0) == 1 ? 0 : -errno;
}

static int receive_fd(int sk)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(sk, &m, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static int sender(void *arg)
{
	struct ks_client k;
	int i;

	(void)arg;
	if (ks_client(&k, "sent", SIZE) || ks_alloc(k.fd, k.c.id, pages, PAGES, 0) != PAGES)
		return 1;
	for (i = 0; i < PAGES; i++)
		ks_fill(ks_at(&k, k.w, pages[i]), SIZE, i);
	if (send_fd(sock[0], k.fd))
		return 2;
	raise(SIGKILL);
	return 3;
}

static u64 private_pages(int fd)
{
	struct kvslab_stat_pool s;

	return ks_stat(fd, &s) ? ~0ull : s.private_pages;
}

static bool gone(void *arg)
{
	struct kvslab_stat_pool s;

	return !ks_stat(*(int *)arg, &s) && s.clients == 1 && s.private_pages == 0;
}

int main(void)
{
	int watch, fd, i, good;
	u8 *w;
	struct kvslab_args_cache c = { .page_size = SIZE };

	pages = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(!ks_pool("sent", 0, 8 << 20, 0600), "a pool");
	watch = ks_open("sent", O_RDWR);
	must(watch >= 0, "a client that watches");

	/* received */
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock), "a socket");
	ok(ks_wait(ks_child(sender, NULL)) == 128 + SIGKILL, "a client sends its descriptor and is killed");
	ok(private_pages(watch) == PAGES, "its pages live on in the socket");
	fd = receive_fd(sock[1]);
	must(fd >= 0 && ks_cmd(fd, KVSLAB_CMD_CACHE, &c, sizeof(c)) >= 0, "the descriptor is received");
	w = ks_map(fd, c.arena, KVSLAB_MAP_WRITE, 0, c.arena_size, PROT_READ | PROT_WRITE);
	for (good = !!w, i = 0; good && i < PAGES; i++)
		good = ks_filled(w + (u64)KVSLAB_HANDLE_EXTENT(pages[i]) * EXTENT + KVSLAB_HANDLE_INDEX(pages[i]) * SIZE,
				 SIZE, i);
	ok(good, "whoever receives it has the client: its pages can be written");
	ok(ks_free(fd, pages, PAGES - 1) >= 0 && private_pages(watch) == 1, "and freed");
	close(fd);
	ok(private_pages(watch) == 1, "its mapping keeps it");
	munmap(w, c.arena_size);
	ok(ks_until(gone, &watch, 5), "until that goes too");

	/* never received */
	ok(ks_wait(ks_child(sender, NULL)) == 128 + SIGKILL, "another");
	ok(private_pages(watch) == PAGES, "lives on in the socket");
	close(sock[1]);
	close(sock[0]);
	ok(ks_until(gone, &watch, 5), "and ends with the socket");

	/* a socket that holds itself: only the collector of such cycles ends it */
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock), "a socket");
	ok(ks_wait(ks_child(sender, NULL)) == 128 + SIGKILL, "a third");
	must(!send_fd(sock[0], sock[1]) && !send_fd(sock[1], sock[0]), "a cycle");
	close(sock[0]);
	close(sock[1]);
	for (i = 0; i < 50 && !gone(&watch); i++) {
		int other[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, other))
			break;
		send_fd(other[0], other[1]);
		close(other[0]);
		close(other[1]);
		usleep(50000);
	}
	ok(gone(&watch), "ends when the cycle of sockets that holds it is collected");
	close(watch);
	return done();
}
