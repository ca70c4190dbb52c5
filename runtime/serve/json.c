// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "json.h"

#include <string.h>

json_t *json_body(const char *s, size_t n, struct api_error *e)
{
	json_error_t err;
	json_t *o = json_loadb(s ? s : "", n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &err);

	if (!o && json_error_code(&err) == json_error_numeric_overflow) {
		api_fail(e, 400, NULL, "a number (line %d, before column %d) is beyond what this server reads: integers from -2^63 to "
			 "2^63 - 1", err.line, err.column);
		return NULL;
	}
	if (!o) {
		api_fail(e, 400, NULL, "the body is not valid JSON: %s (line %d, column %d)", err.text, err.line, err.column);
		return NULL;
	}
	if (!json_is_object(o)) {
		api_fail(e, 400, NULL, "the body is %s; it must be a JSON object", json_kind(o));
		json_decref(o);
		return NULL;
	}
	return o;
}

json_t *json_field(const json_t *o, const char *name)
{
	json_t *j = json_object_get(o, name);

	return json_is_null(j) ? NULL : j;
}

const char *json_kind(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		return "null";
	}
	return "something else";
}

int json_int(const json_t *o, const char *name, int64_t min, int64_t max, int64_t *v, struct api_error *e)
{
	const json_t *j = json_field(o, name);

	if (!j)
		return 0;
	/* 64.0 is what some clients write for 64 */
	if (json_is_real(j) && json_real_value(j) >= -9e15 && json_real_value(j) <= 9e15 &&
	    json_real_value(j) == (double)(int64_t)json_real_value(j)) {
		*v = (int64_t)json_real_value(j);
	} else if (json_is_integer(j)) {
		*v = json_integer_value(j);
	} else {
		return api_fail(e, 400, name, "%s is %s; it must be an integer", name, json_kind(j));
	}
	if (*v < min || *v > max)
		return api_fail(e, 400, name, "%s is %lld; it must be from %lld to %lld", name, (long long)*v,
				(long long)min, (long long)max);
	return 0;
}

int json_number_in(const json_t *o, const char *name, double min, double max, double *v, struct api_error *e)
{
	const json_t *j = json_field(o, name);

	if (!j)
		return 0;
	if (!json_is_number(j))
		return api_fail(e, 400, name, "%s is %s; it must be a number", name, json_kind(j));
	*v = json_number_value(j);
	if (!(*v >= min && *v <= max))
		return api_fail(e, 400, name, "%s is %g; it must be from %g to %g", name, *v, min, max);
	return 0;
}

int json_bool(const json_t *o, const char *name, bool *v, struct api_error *e)
{
	const json_t *j = json_field(o, name);

	if (!j)
		return 0;
	if (!json_is_boolean(j))
		return api_fail(e, 400, name, "%s is %s; it must be true or false", name, json_kind(j));
	*v = json_is_true(j);
	return 0;
}

int json_text(const json_t *o, const char *name, size_t max, const char **s, size_t *n, struct api_error *e)
{
	const json_t *j = json_field(o, name);

	if (!j)
		return 0;
	if (!json_is_string(j))
		return api_fail(e, 400, name, "%s is %s; it must be a string", name, json_kind(j));
	*s = json_string_value(j);
	*n = json_string_length(j);
	if (!*n || *n > max)
		return api_fail(e, 400, name, "%s has %zu bytes; it must have from 1 to %zu", name, *n, max);
	return 0;
}
