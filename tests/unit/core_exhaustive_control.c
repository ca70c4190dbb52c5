// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The same search of a core that takes over no slab: it must find states that refuse, else it would
 * prove nothing. */
#define KVC_WITHOUT_TAKE_OVER
#include "kmod/core/take.c"
#include "tests/unit/core_exhaustive.c"
