// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "msg.h"
#include "serve.h"

#define BACKLOG 4096

static void describe(int fd, char *where, size_t n)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (getsockname(fd, (struct sockaddr *)&a, &len) ||
	    getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(where, n, "?");
	else
		snprintf(where, n, a.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host, port);
}

int serve_listen_tcp(const char *host, uint16_t port, char *where, size_t n)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list, *ai;
	int fd = -1, err, one = 1;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &list);
	if (err) {
		msg("--host %s: %s; give an address of this machine, as in 127.0.0.1, or 0.0.0.0 for all", host,
		    gai_strerror(err));
		return -1;
	}
	err = 0;
	for (ai = list; ai; ai = ai->ai_next) {
		fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0) {
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
			if (!bind(fd, ai->ai_addr, ai->ai_addrlen) && !listen(fd, BACKLOG))
				break;
		}
		err = errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	if (fd < 0)
		msg("cannot listen on %s port %u: %s; %s", host, port, strerror(err),
		    err == EADDRINUSE ? "stop what uses it, or give another --port" : "give another --host or --port");
	else
		describe(fd, where, n);
	return fd;
}

/* A socket that nobody listens on is left from a server that was killed. */
static void remove_stale(const char *path, const struct sockaddr_un *a)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED)
		unlink(path);
	close(fd);
}

int serve_listen_unix(const char *path, char *where, size_t n)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		msg("--unix %s: the path has %zu bytes and %zu are the most; give a shorter one", path, strlen(path),
		    sizeof(a.sun_path) - 1);
		return -1;
	}
	strcpy(a.sun_path, path);
	remove_stale(path, &a);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BACKLOG)) {
		msg("cannot listen on %s: %s; %s", path, strerror(errno),
		    errno == EADDRINUSE ? "remove it if nothing uses it, or give another path" :
					  "give a path in a folder that is there and may be written");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	snprintf(where, n, "unix:%s", path);
	return fd;
}

unsigned long serve_raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return 1024;
	if (r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
		getrlimit(RLIMIT_NOFILE, &r);
	}
	return r.rlim_cur;
}
