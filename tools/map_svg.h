/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The map as a picture. Colours follow the reader's choice of light or dark; nothing is loaded from elsewhere. */
#ifndef TOOLS_MAP_SVG_H
#define TOOLS_MAP_SVG_H

#include <stdio.h>

#include "map_cells.h"

/* Pools at one moment, slab by slab. @source: where it comes from, in words. */
int map_svg(FILE *f, const struct snap *s, const char *source);

/* Pools over time: samples are given one after the other, each is kept as cells alone. */
struct map_film;
struct map_film *map_film_new(void); /* NULL: no memory */
void map_film_free(struct map_film *m);
/* Twice over all samples: first to measure, then to draw from. -ENOMEM. */
int map_film_measure(struct map_film *m, const struct snap *s);
int map_film_add(struct map_film *m, const struct snap *s);
/* How many pools were measured. */
uint32_t map_film_pools(const struct map_film *m);
/* @step: ns from a sample to the next, where they are not further apart. */
int map_film_svg(FILE *f, const struct map_film *m, const char *source, uint64_t step);

#endif
