/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* Where an address of a process lies: its function, as the symbol tables of the process's files have it. */
#ifndef TOOLS_TRACE_PLACE_H
#define TOOLS_TRACE_PLACE_H

#include <stddef.h>
#include <stdint.h>

struct trace_places; /* files that were read */

struct trace_places *trace_places_new(void); /* NULL: no memory */
/*
 * "0x401136 leak_here+0x16 (server)"; without symbols "0x401136 server+0x1136", an offset in the file; once the process
 * is gone the address alone.
 */
void trace_place(struct trace_places *p, uint32_t pid, uint64_t address, char *text, size_t n);
void trace_places_free(struct trace_places *p);

#endif
