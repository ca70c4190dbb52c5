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
#include "gguf_shards.h"

#define LEAF ((size_t)8 << 20) /* bytes hashed at once */

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

static int open_one(struct gguf *g, const char *path, struct model_error *e)
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

static int open_more(struct gguf *g, uint64_t n, struct model_error *e)
{
	char *path;
	int err;

	g->more = calloc(n - 1, sizeof(*g->more));
	if (!g->more)
		return model_fail(e, -ENOMEM, "%s: no memory for %llu files", g->path, (unsigned long long)n);
	while (g->n_more < n - 1) {
		path = gguf_shard_path(g, g->n_more + 1);
		if (!path)
			return model_fail(e, -ENOMEM, "%s: no memory for a path", g->path);
		err = open_one(&g->more[g->n_more], path, e);
		free(path);
		if (err)
			return err;
		g->n_more++;
	}
	return gguf_shards_join(g, e);
}

int gguf_open(struct gguf *g, const char *path, struct model_error *e)
{
	int err = open_one(g, path, e);
	char *first = NULL;
	uint64_t n;

	if (err || (n = gguf_shards(g)) == 1)
		return err;
	if (!n)
		err = model_fail(e, -EOPNOTSUPP, "%s: is one of more parts than are supported ('split.count'), which are 1 to 1000: merge them",
				 path);
	else if (!(first = gguf_shard_path(g, 0)))
		err = model_fail(e, -EINVAL, "%s: is a part of a model of %llu; its name must end in -00001-of-%05llu.gguf, or as its part says, so that the others are found: rename them, or merge them",
				 path, (unsigned long long)n, (unsigned long long)n);
	if (!err && strcmp(first, g->path)) {
		gguf_close(g);
		err = open_one(g, first, e);
		if (!err && gguf_shards(g) != n)
			err = model_fail(e, -EBADMSG, "%s: not the first of %llu parts: fetch it again", first, (unsigned long long)n);
	}
	free(first);
	err = err ? err : open_more(g, n, e);
	if (err)
		gguf_close(g);
	return err;
}

void gguf_close(struct gguf *g)
{
	for (uint32_t i = 0; i < g->n_more; i++)
		gguf_close(&g->more[i]);
	free(g->more);
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

static uint64_t leaves_of(const struct gguf *g)
{
	return (g->size + LEAF - 1) / LEAF;
}

uint64_t gguf_leaves(const struct gguf *g)
{
	uint64_t n = leaves_of(g);

	for (uint32_t i = 0; i < g->n_more; i++)
		n += leaves_of(&g->more[i]);
	return n;
}

const uint8_t *gguf_leaf(const struct gguf *g, uint64_t i, size_t *size)
{
	const struct gguf *file = g;
	size_t at;

	for (uint32_t k = 0; i >= leaves_of(file); k++) {
		i -= leaves_of(file);
		file = &g->more[k];
	}
	at = i * LEAF;
	*size = file->size - at < LEAF ? file->size - at : LEAF;
	return file->map + at;
}

/* A domain of its own: the digest of a model is no other keyed hash of the same bytes. */
static void hash(const void *data, size_t size, const char name[static 15], uint8_t out[32])
{
	uint8_t key[32] = { 0 };
	/* Chooses the fastest code for this CPU; the result is the same without. */
	int init = sodium_init();

	(void)init;
	memcpy(key, name, 14);
	crypto_generichash(out, 32, data, size, key, sizeof(key));
}

void gguf_digest_leaf(const struct gguf *g, uint64_t i, uint8_t out[32])
{
	size_t size;
	const uint8_t *data = gguf_leaf(g, i, &size);

	hash(data, size, "kvslab-model-l", out);
}

void gguf_digest_root(const uint8_t (*leaves)[32], uint64_t n, uint8_t digest[32])
{
	hash(leaves, n * sizeof(*leaves), "kvslab-model-2", digest);
}

void gguf_digest(const struct gguf *g, uint8_t digest[32])
{
	/* The root of one leaf after the other, as gguf_digest_root would see them together. */
	static const uint8_t key[32] = "kvslab-model-2";
	crypto_generichash_state state;
	uint8_t leaf[32];
	size_t size;
	int init = sodium_init();

	(void)init;
	crypto_generichash_init(&state, key, sizeof(key), 32);
	for (uint64_t i = 0; i < gguf_leaves(g); i++) {
		const uint8_t *data = gguf_leaf(g, i, &size);

		gguf_digest_leaf(g, i, leaf);
		crypto_generichash_update(&state, leaf, sizeof(leaf));
		gguf_drop(g, data, size);
	}
	crypto_generichash_final(&state, digest, 32);
}
