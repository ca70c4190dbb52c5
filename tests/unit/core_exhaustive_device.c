// SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
/* The same search on a device arena. */
#define ON_DEVICE_MEMORY
#include "tests/unit/core_exhaustive.c"
