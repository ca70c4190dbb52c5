// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* Every option may also be given in the environment: --max-queue as KVSLAB_MAX_QUEUE. The command line goes before it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg.h"
#include "serve.h"

static const char *variable(const struct argp_option *o, char *name, size_t n)
{
	size_t i;

	snprintf(name, n, "KVSLAB_%s", o->name);
	for (i = 0; name[i]; i++)
		name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
	return getenv(name);
}

/* Whether the command line has the option already, in any of argp's spellings. */
static bool given(int argc, char **argv, const struct argp_option *o)
{
	size_t len;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--"))
			return false;
		if (argv[i][0] != '-')
			continue;
		if (argv[i][1] != '-') {
			if (isprint(o->key) && argv[i][1] == o->key)
				return true;
			continue;
		}
		len = strcspn(argv[i] + 2, "=");
		if (len && !strncmp(argv[i] + 2, o->name, len))
			return true;
	}
	return false;
}

static bool is_yes(const char *name, const char *value)
{
	if (!strcmp(value, "1") || !strcmp(value, "true") || !strcmp(value, "yes"))
		return true;
	if (!*value || !strcmp(value, "0") || !strcmp(value, "false") || !strcmp(value, "no"))
		return false;
	die("%s is \"%s\"; give 1 or 0", name, value);
}

char **serve_env(int *argc, char **argv, const struct argp_option *const *lists, int *n_env)
{
	const struct argp_option *o;
	char name[64], *text, **out;
	const char *value;
	size_t n = 1, room = (size_t)*argc + 2;
	int i;

	for (i = 0; lists[i]; i++)
		for (o = lists[i]; o->name || o->doc; o++)
			room++;
	out = calloc(room, sizeof(*out));
	if (!out)
		die("no memory for the options");
	out[0] = argv[0];
	for (i = 0; lists[i]; i++) {
		for (o = lists[i]; o->name || o->doc; o++) {
			value = o->name ? variable(o, name, sizeof(name)) : NULL;
			if (!value || given(*argc, argv, o) || (!o->arg && !is_yes(name, value)))
				continue;
			if (asprintf(&text, o->arg ? "--%s=%s" : "--%s", o->name, value) < 0)
				die("no memory for the options");
			out[n++] = text;
		}
	}
	*n_env = (int)n - 1;
	for (i = 1; i < *argc; i++)
		out[n++] = argv[i];
	*argc = (int)n;
	return out;
}
