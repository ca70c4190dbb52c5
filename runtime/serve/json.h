/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * Fields of a request's JSON object, each with its kind and range. A field that is absent or null leaves the value as it was
 * and counts as good; what is wrong is told with the field's name. 0, or -1 with @e filled.
 */
#ifndef SERVE_JSON_H
#define SERVE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "error.h"

/* Parses an object; NULL: told. No duplicate keys, nothing behind it. The caller drops the reference. */
json_t *json_body(const char *s, size_t n, struct api_error *e);
/* The field; NULL: absent or null. */
json_t *json_field(const json_t *o, const char *name);

int json_int(const json_t *o, const char *name, int64_t min, int64_t max, int64_t *v, struct api_error *e);
int json_number_in(const json_t *o, const char *name, double min, double max, double *v, struct api_error *e);
int json_bool(const json_t *o, const char *name, bool *v, struct api_error *e);
/* Points into @o. Bytes at most @max; 0 of them are refused. */
int json_text(const json_t *o, const char *name, size_t max, const char **s, size_t *n, struct api_error *e);
/* The name of a value's kind, for messages. */
const char *json_kind(const json_t *j);

#endif
