/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* kvslab pool: the pools of the kernel module, through /dev/kvslab. Failures are told on stderr by the call that met
 * them. */
#ifndef TOOLS_POOL_H
#define TOOLS_POOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kmod/uapi/kvslab.h"

#define POOL_FOLDER "/dev/kvslab"
#define POOL_CONTROL POOL_FOLDER "/control"
#define POOL_EXTENT_MIB (KVSLAB_CMD_EXTENT >> 20)

/* What there is to say of a pool. */
struct pool_view {
	struct kvslab_stat_pool pool;
	struct kvslab_stat_cache *caches;
	struct kvslab_stat_client *clients; /* without this process */
	struct kvslab_stat_arena *arenas; /* of device memory */
	struct kvslab_stat_slab *slabs; /* by extent; only where they were asked for */
	uint64_t device_max, device_size; /* bytes */
	uint32_t nr_caches, nr_clients, nr_arenas, nr_slabs;
	bool details; /* caches and clients were to be had */
};

/* A command for POOL_CONTROL; 0 or more, or a negative errno. */
int pool_control(unsigned int cmd, void *args, uint32_t size);
/* 0, or an exit status when what stands in the way was told: the module is not loaded, or who may not. */
int pool_told(int err, const char *what);
/* @name fits: else ends the command. */
void pool_check_name(const char *name);
/* All names, sorted, as a list that ends with NULL; pool_names_free. NULL: no memory or no folder. */
char **pool_names(void);
void pool_names_free(char **names);
/* "there is no pool NAME; ...", with those that exist. */
void pool_say_unknown(const char *name);

/* -errno, told. */
int pool_look(struct pool_view *v, const char *name);
/* The same, not told; with the slabs if @slabs. */
int pool_read(struct pool_view *v, const char *name, bool slabs);
/* Extents of the host's arena; where nobody may tell, as many as the memory has. */
uint64_t pool_arena_extents(void);
void pool_view_free(struct pool_view *v);

/* An exit status. */
int pool_policy(bool json);

void pool_print(const struct pool_view *v);
void pool_print_line(const struct pool_view *v, bool head);
json_t *pool_json(const struct pool_view *v);

#endif
