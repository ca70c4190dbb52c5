// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The recorder's side: one write for each record, at the end of the file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "msg.h"
#include "record.h"

static int told(const char *path, int err)
{
	msg("%s cannot be written: %s; make room there, or name another file", path, strerror(-err));
	return err;
}

/* All of it, or the file as it was. */
static int append(struct record_writer *w, const uint8_t *data, size_t n)
{
	off_t before = lseek(w->fd, 0, SEEK_END);
	size_t done = 0;
	ssize_t k;
	int err;

	while (done < n) {
		k = write(w->fd, data + done, n - done);
		if (k > 0) {
			done += (size_t)k;
		} else if (k == 0 || errno != EINTR) {
			err = k ? -errno : -EIO;
			if (ftruncate(w->fd, before))
				msg("%s: the rest of a record stays at its end; readers leave it out", w->path);
			return told(w->path, err);
		}
	}
	return 0;
}

static int append_record(struct record_writer *w, enum record_type type, const uint8_t *payload, size_t n,
			 bool header)
{
	size_t head = header ? RECORD_HEADER : 0, size = head + RECORD_FRAME + n;
	uint8_t *data = malloc(size);
	int err;

	if (!data)
		return told(w->path, -ENOMEM);
	if (header)
		record_header(data);
	record_frame(type, payload, n, data + head);
	err = append(w, data, size);
	free(data);
	return err;
}

/* To the end of what is whole; 1 if the file is to get a header. */
static int go_on(struct record_writer *w)
{
	struct record_begin b;
	struct record r;
	struct snap s;
	uint8_t want[RECORD_HEADER], have[RECORD_HEADER];
	FILE *f;
	int fd, rc;

	record_header(want);
	rc = (int)pread(w->fd, have, sizeof(have), 0);
	if (rc < 0)
		return told(w->path, -errno);
	if (rc < (int)sizeof(have) && !memcmp(have, want, (size_t)rc)) /* nothing, or less than a header */
		return ftruncate(w->fd, 0) ? told(w->path, -errno) : 1;
	fd = dup(w->fd);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return told(w->path, rc);
	}
	rc = record_open(&r, f);
	if (rc) {
		msg("%s exists and cannot be gone on with: %s; name another file", w->path, r.why);
		fclose(f);
		return rc;
	}
	while ((rc = record_next(&r, &b, &s)) > 0)
		if (rc == RECORD_SAMPLE)
			snap_free(&s);
	fclose(f);
	if (rc < 0)
		return told(w->path, rc);
	if (r.at == r.size)
		return 0;
	msg("%s: %s", w->path, r.why);
	return ftruncate(w->fd, (off_t)r.at) ? told(w->path, -errno) : 0;
}

int record_create(struct record_writer *w, const char *path, uint64_t interval)
{
	uint8_t begin[16];
	struct timespec t;
	struct stat st;
	uint64_t now;
	int err, i;

	memset(w, 0, sizeof(*w));
	w->path = path;
	w->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
	if (w->fd < 0)
		return told(path, -errno);
	if (fstat(w->fd, &st) || !S_ISREG(st.st_mode)) {
		msg("%s is no regular file; a recording is appended to, name another", path);
		err = -EINVAL;
	} else if (flock(w->fd, LOCK_EX | LOCK_NB)) {
		err = -EBUSY;
		msg("%s is being recorded into by another process; name another file", path);
	} else {
		err = go_on(w);
	}
	if (err >= 0) {
		clock_gettime(CLOCK_REALTIME, &t);
		now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
		for (i = 0; i < 8; i++) {
			begin[i] = (uint8_t)(now >> 8 * i);
			begin[8 + i] = (uint8_t)(interval >> 8 * i);
		}
		err = append_record(w, RECORD_BEGIN, begin, sizeof(begin), err == 1);
	}
	if (err)
		close(w->fd);
	return err;
}

int record_write(struct record_writer *w, const struct snap *s)
{
	uint8_t *payload;
	size_t n;
	int err = record_encode(s, &payload, &n);

	if (err)
		return told(w->path, err);
	err = append_record(w, RECORD_SAMPLE, payload, n, false);
	free(payload);
	if (!err)
		w->samples++;
	return err;
}

int record_close(struct record_writer *w)
{
	return close(w->fd) ? told(w->path, -errno) : 0;
}
