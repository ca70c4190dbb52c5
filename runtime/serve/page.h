/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The page at /, part of the program. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

#define PAGE_FIELDS 768

extern const char page_html[]; /* [page_html_size], and a 0 */
extern const size_t page_html_size;

/*
 * The page's header lines. They allow its own script and style, by their hashes, and requests to the server it came from;
 * nothing else is loaded, whatever text comes to stand in the page, and no other site may frame it. sodium_init() first.
 */
void page_fields(char fields[PAGE_FIELDS]);

#endif
