// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* GGUF files on disk: opening, mapping, closing; the digest that names their content. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "gguf.h"

#define DIGEST_STEP ((size_t)8 << 20) /* bytes hashed before their frames are given back */

static int open_error(const char *path, int err, struct model_error *e)
{
	switch (err) {
	case ENOENT:
		return model_fail(e, -err, "%s: no such file: check the path", path);
	case EACCES:
	case EPERM:
		return model_fail(
			e, -err,
			"%s: not readable for this user: change its mode or run as another user",
			path);
	default:
		return model_fail(e, -err, "%s: cannot be opened: %s", path, strerror(err));
	}
}

int gguf_open(struct gguf *g, const char *path, struct model_error *e)
{
	void *map = NULL;
	struct stat st;
	int fd, err;

	memset(g, 0, sizeof(*g));
	/* Without O_NONBLOCK a named pipe would wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return open_error(path, errno, e);
	if (fstat(fd, &st)) {
		err = model_fail(e, -errno, "%s: cannot be examined: %s", path, strerror(errno));
		goto out;
	}
	if (S_ISDIR(st.st_mode)) {
		err = model_fail(e, -EISDIR, "%s: a directory: name a .gguf file in it", path);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		err = model_fail(e, -EINVAL,
				 "%s: not a regular file, which a model must be to be mapped",
				 path);
		goto out;
	}
	if (st.st_size) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED) {
			err = model_fail(e, -errno, "%s: %lld bytes cannot be mapped: %s", path,
					 (long long)st.st_size, strerror(errno));
			goto out;
		}
	}
	err = gguf_parse(g, map, (size_t)st.st_size, path, e);
	if (err && map)
		munmap(map, (size_t)st.st_size);
	else if (!err)
		g->mapped = true;
out:
	close(fd);
	return err;
}

void gguf_close(struct gguf *g)
{
	if (g->mapped)
		munmap((void *)g->map, g->size);
	free(g->path);
	free(g->values);
	free(g->tensors);
	free(g->value_order);
	free(g->tensor_order);
	memset(g, 0, sizeof(*g));
}

void gguf_drop(const struct gguf *g, const void *data, size_t size)
{
	uintptr_t frame = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = ((uintptr_t)data + frame - 1) & ~(frame - 1),
		  end = ((uintptr_t)data + size) & ~(frame - 1);

	/* What straddles the border stays: it holds a neighbour's bytes too. */
	if (g->mapped && start < end)
		madvise((void *)start, end - start, MADV_DONTNEED);
}

void gguf_digest(const struct gguf *g, uint8_t digest[32])
{
	/* A domain of its own: the digest of a model is no other keyed hash of the same bytes. */
	static const uint8_t key[32] = "kvslab-model-1";
	crypto_generichash_state state;
	/* Chooses the fastest code for this CPU; the result is the same without. */
	int init = sodium_init();

	(void)init;
	crypto_generichash_init(&state, key, sizeof(key), 32);
	for (size_t at = 0; at < g->size; at += DIGEST_STEP) {
		size_t n = g->size - at < DIGEST_STEP ? g->size - at : DIGEST_STEP;

		crypto_generichash_update(&state, g->map + at, n);
		gguf_drop(g, g->map + at, n);
	}
	crypto_generichash_final(&state, digest, 32);
}
