// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int api_fail(struct api_error *e, int status, const char *param, const char *fmt, ...)
{
	va_list ap;

	memset(e, 0, sizeof(*e));
	e->status = status;
	snprintf(e->param, sizeof(e->param), "%s", param ? param : "");
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof(e->message), fmt, ap);
	va_end(ap);
	return -1;
}

static const char *type(int status)
{
	switch (status) {
	case 401:
		return "authentication_error";
	case 429:
		return "rate_limit_error";
	}
	return status >= 500 ? "server_error" : "invalid_request_error";
}

static void text_or_null(struct buf *b, const char *s)
{
	if (*s)
		buf_json(b, s, strlen(s));
	else
		buf_text(b, "null");
}

void api_error_json(struct buf *b, const struct api_error *e)
{
	buf_text(b, "{\"error\":{\"message\":");
	buf_json(b, e->message, strlen(e->message));
	buf_print(b, ",\"type\":\"%s\",\"param\":", type(e->status));
	text_or_null(b, e->param);
	buf_text(b, ",\"code\":");
	text_or_null(b, e->code);
	buf_text(b, "}}");
}
