// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "page.h"

/* The compiler runs in the root of the source. */
__asm__(".section .rodata\n"
	".global page_html\n"
	"page_html:\n"
	".incbin \"runtime/serve/page.html\"\n"
	"page_html_end:\n"
	".byte 0\n"
	".balign 8\n"
	".global page_html_size\n"
	"page_html_size:\n"
	".quad page_html_end - page_html\n"
	".previous\n");
