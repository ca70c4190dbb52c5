# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# What the server needs beyond the rules in Makefile.

# Debian 13 has llhttp, 12 its predecessor; the source takes whichever header is there.
LIBS_HTTP := $(if $(shell $(CC) -E -include llhttp.h -x c /dev/null >/dev/null 2>&1 && echo y),-lllhttp,-lhttp_parser)
