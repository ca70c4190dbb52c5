// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "net.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

int net_listen(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && !bind(fd, (struct sockaddr *)&a, n) && !listen(fd, 4096) &&
		     !getsockname(fd, (struct sockaddr *)&a, &n),
	     "listen on loopback");
	*port = ntohs(a.sin_port);
	return fd;
}

int net_connect(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) }, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

void net_reset(int fd)
{
	struct linger l = { 1, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(fd);
}

int net_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int n = 0;

	must(d != NULL, "/proc/self/fd");
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n - 1; /* the one that reads them */
}

int net_room(unsigned int n)
{
	struct rlimit r;

	must(!getrlimit(RLIMIT_NOFILE, &r), "getrlimit");
	if (r.rlim_cur >= n)
		return 0;
	r.rlim_cur = r.rlim_max;
	return r.rlim_max >= n && !setrlimit(RLIMIT_NOFILE, &r) ? 0 : -1;
}
