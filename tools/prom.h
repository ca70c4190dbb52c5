/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Prometheus' text format, 0.0.4: families, each with its samples behind its head. Base units: bytes, seconds. Whoever
 * fills it looks at buf.failed once, at the end.
 */
#ifndef TOOLS_PROM_H
#define TOOLS_PROM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/serve/buf.h"

#define PROM_LABELS 6

struct prom_label {
	const char *name, *value; /* a value of any bytes; NULL ends the list */
};

struct prom {
	struct buf text;
	const char *family; /* of the samples that come */
};

/* @type: gauge, counter, histogram. All samples of a family come behind one call. */
void prom_family(struct prom *p, const char *name, const char *type, const char *help);
void prom_value(struct prom *p, const struct prom_label *labels, double value);
/*
 * Slots of bpf/maps.h: slot i counts values of i bits. @unit: of a value, in base units. Buckets end at values of @low to
 * @high bits; what is smaller is in the first, what is larger in +Inf alone.
 */
void prom_hist(struct prom *p, const struct prom_label *labels, const uint64_t *slots, unsigned int n, uint64_t sum,
	       double unit, unsigned int low, unsigned int high);

#endif
