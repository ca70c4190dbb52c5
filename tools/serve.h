/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* kvslab serve: its parts. */
#ifndef TOOLS_SERVE_H
#define TOOLS_SERVE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "kvslab.h"

struct serve_opts {
	struct engine_opts engine;
	struct kvslab_sampling sampling;
	bool has_seed;
	uint32_t max_tokens;
	const char *alias;
	const char *chat_template; /* NULL: the file's */
	const char *host, *unix_path;
	uint16_t port;
	bool has_port;
	const char **keys; /* owned, and each of them */
	size_t n_keys;
	uint32_t max_queue;
	uint32_t grace_s;
	uint32_t ping_ms;
	uint32_t max_conns;
	uint64_t max_body;
	const char *log_file;
	enum kvslab_log_level log_level;
	enum kvslab_loop_kind loop;
	char **argv; /* what the others point into; owned */
	int n_env;
};

/* serve_opts.c: from the command line and the environment; exits with a message. */
void serve_parse(struct serve_opts *o, int argc, char **argv);
void serve_opts_free(struct serve_opts *o);

/* serve_env.c: a command line with what the environment says put before what is there; owned, and so are its @n_env strings
 * from the second on. Exits without memory. */
char **serve_env(int *argc, char **argv, const struct argp_option *const *lists, int *n_env);

/* serve_net.c: sockets to listen on; -1 after a message. @where gets what a client would be told. */
int serve_listen_tcp(const char *host, uint16_t port, char *where, size_t n);
int serve_listen_unix(const char *path, char *where, size_t n);
/* As many descriptors as we may have; returns how many. */
unsigned long serve_raise_files(void);

#endif
