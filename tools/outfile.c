// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "msg.h"

static int fail(struct outfile *o, int err)
{
	msg("%s cannot be written: %s; check its folder, or name another file", o->path, strerror(err ? err : EIO));
	outfile_abort(o);
	return -1;
}

int outfile_open(struct outfile *o, const char *path)
{
	mode_t mask = umask(0);
	struct stat st;
	int fd;

	umask(mask);
	memset(o, 0, sizeof(*o));
	o->path = path;
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		o->f = fopen(path, "we");
		return o->f ? 0 : fail(o, errno);
	}
	if (asprintf(&o->tmp, "%s.XXXXXX", path) < 0) {
		o->tmp = NULL;
		return fail(o, ENOMEM);
	}
	fd = mkostemp(o->tmp, O_CLOEXEC);
	if (fd < 0) {
		free(o->tmp);
		o->tmp = NULL;
		return fail(o, errno);
	}
	fchmod(fd, 0666 & ~mask);
	o->f = fdopen(fd, "w");
	if (!o->f) {
		close(fd);
		return fail(o, errno);
	}
	return 0;
}

int outfile_json(struct outfile *o, json_t *object)
{
	int err = !object || json_dumpf(object, o->f, JSON_COMPACT | JSON_REAL_PRECISION(9)) ||
		  fputc('\n', o->f) == EOF;

	json_decref(object);
	return err ? fail(o, errno) : 0;
}

int outfile_commit(struct outfile *o)
{
	FILE *f = o->f;
	int bad = ferror(f);

	o->f = NULL;
	errno = 0;
	if (fclose(f) || bad || (o->tmp && rename(o->tmp, o->path)))
		return fail(o, errno);
	free(o->tmp);
	o->tmp = NULL;
	return 0;
}

void outfile_abort(struct outfile *o)
{
	if (o->f)
		fclose(o->f);
	if (o->tmp) {
		unlink(o->tmp);
		free(o->tmp);
	}
	o->f = NULL;
	o->tmp = NULL;
}
