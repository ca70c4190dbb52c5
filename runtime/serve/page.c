// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "page.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

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

#define HASH_TEXT sodium_base64_ENCODED_LEN(crypto_hash_sha256_BYTES, sodium_base64_VARIANT_ORIGINAL)

/* Of what stands between two tags of the page. */
static void hash_between(char text[HASH_TEXT], const char *from, const char *to)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	const char *at = strstr(page_html, from), *end;

	at = at ? at + strlen(from) : page_html;
	end = strstr(at, to);
	crypto_hash_sha256(hash, (const unsigned char *)at, end ? (size_t)(end - at) : 0);
	sodium_bin2base64(text, HASH_TEXT, hash, sizeof(hash), sodium_base64_VARIANT_ORIGINAL);
}

void page_fields(char fields[PAGE_FIELDS])
{
	char script[HASH_TEXT], style[HASH_TEXT];

	hash_between(script, "<script>", "</script>");
	hash_between(style, "<style>", "</style>");
	snprintf(fields, PAGE_FIELDS,
		 "Content-Security-Policy: default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; "
		 "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
		 "X-Content-Type-Options: nosniff\r\n"
		 "X-Frame-Options: DENY\r\n"
		 "Referrer-Policy: no-referrer\r\n"
		 "Cross-Origin-Opener-Policy: same-origin\r\n"
		 "Cross-Origin-Resource-Policy: same-origin\r\n"
		 "Cache-Control: no-cache\r\n",
		 script, style);
}
