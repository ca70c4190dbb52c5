/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/* The page at /, part of the program. */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

extern const char page_html[];
extern const size_t page_html_size;

#endif
