/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Loopback sockets for tests. What cannot be had ends the test program with a message. */
#ifndef TESTS_NET_H
#define TESTS_NET_H

#include <stdint.h>

/* Listens on 127.0.0.1 at a free port. */
int net_listen(uint16_t *port);
/* A blocking connection to it; -1: refused. */
int net_connect(uint16_t port);
/* Closes with a reset. */
void net_reset(int fd);
/* Descriptors that this process has open. */
int net_fds(void);
/* Room for at least @n descriptors; -1: not to be had. */
int net_room(unsigned int n);

#endif
