// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
#include "stop.h"

#include <string.h>

void stop_scan(struct stop_scan *scan, const struct stop_text *stops, uint32_t n_stops, const char *text, size_t n)
{
	size_t i, held = n;
	uint32_t k;

	if (scan->stopped)
		return;
	for (i = scan->from; i < n; i++) {
		for (k = 0; k < n_stops; k++) {
			if (stops[k].n <= n - i) {
				if (memcmp(text + i, stops[k].s, stops[k].n))
					continue;
				scan->safe = i;
				scan->stopped = true;
				return;
			}
			if (held == n && !memcmp(text + i, stops[k].s, n - i))
				held = i;
		}
	}
	scan->from = scan->safe = held;
}

void stop_end(struct stop_scan *scan, size_t n)
{
	if (!scan->stopped)
		scan->safe = n;
}
