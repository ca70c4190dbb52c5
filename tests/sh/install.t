#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# make install into a folder of its own; a C and a C++ program built against it; what the library exports and needs.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v pkg-config >/dev/null || { echo "1..0 # SKIP pkg-config is missing"; exit 0; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0 failed=0
ok() { # ok STATUS WORDS...
	status=$1
	shift
	n=$((n + 1))
	if [ "$status" -eq 0 ]; then
		echo "ok $n - $*"
	else
		echo "not ok $n - $*"
		failed=1
	fi
}
skip() {
	n=$((n + 1))
	echo "ok $n - # SKIP $*"
}

BUILD=${BUILD:-build}
prefix=/opt/kv
root=$tmp/root
${MAKE:-make} -s BUILD="$BUILD" install DESTDIR="$root" PREFIX=$prefix >"$tmp/log" 2>&1
ok $? "make install" || cat "$tmp/log"
lib=$root$prefix/lib
[ "$(readlink -f "$lib/libkvslab.so")" = "$(readlink -f "$lib/libkvslab.so.0.1.0")" ] &&
	[ "$(readlink "$lib/libkvslab.so.0")" = libkvslab.so.0.1.0 ] && [ -f "$lib/libkvslab.so.0.1.0" ]
ok $? "libkvslab.so.0.1.0 and its links"
readelf -d "$lib/libkvslab.so" | grep -q 'SONAME.*\[libkvslab\.so\.0\]'
ok $? "the soname is libkvslab.so.0"
[ -f "$lib/libkvslab.a" ] && [ -f "$root$prefix/include/kvslab.h" ]
ok $? "libkvslab.a and kvslab.h"
[ ! -x "$BUILD/kvslab" ] || [ -x "$root$prefix/bin/kvslab" ]
ok $? "the command, if it was built"
[ ! -f docs/kvslab.1 ] || [ -f "$root$prefix/share/man/man1/kvslab.1" ]
ok $? "the man page, if there is one"

export PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
[ "$(pkg-config --modversion kvslab)" = 0.1.0 ]
ok $? "pkg-config knows the version"
[ "$(pkg-config --libs kvslab | tr -s ' ' | sed 's/ *$//')" = "-L$lib -lkvslab" ]
ok $? "its users link with nothing but the library: $(pkg-config --libs kvslab)"

cat >"$tmp/use.c" <<'C'
#include <kvslab.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	struct kvslab_geometry g;
	struct kvslab_cache cache;
	struct kvslab_pool *pool;
	kvslab_handle page;
	char *at;
	int rc;

	memset(&g, 0, sizeof(g));
	g.layers = 4;
	g.kv_heads = 2;
	g.head_dim = 64;
	g.kv_type = KVSLAB_KV_F16;
	rc = kvslab_geometry_init(&g);
	if (!rc)
		rc = kvslab_pool_open(&pool, "embedded:8M", NULL);
	if (!rc) {
		rc = kvslab_cache_open(pool, g.page_size, &cache);
		if (!rc)
			rc = kvslab_alloc(pool, cache.id, &page, 1, 0) == 1 ? 0 : -1;
		at = rc ? NULL : (char *)kvslab_page_rw(pool, page);
		if (at)
			memset(at, 1, g.page_size);
		else
			rc = -1;
		if (!rc)
			rc = kvslab_free(pool, &page, 1);
		kvslab_pool_close(pool);
	}
	printf("%s %s\n", kvslab_version(), rc ? kvslab_strerror(rc) : "fine");
	return rc != 0;
}
C
cp "$tmp/use.c" "$tmp/use.cc"
# What the library was built with (a sanitizer, say) its users need too.
flags="-Wall -Wextra -Werror ${SAN:+-fsanitize=$SAN}"
# shellcheck disable=SC2046,SC2086
${CC:-cc} $flags -std=c11 -Wpedantic $(pkg-config --cflags kvslab) -o "$tmp/use-c" "$tmp/use.c" \
	$(pkg-config --libs kvslab)
ok $? "a C11 program builds"
[ "$(LD_LIBRARY_PATH=$lib "$tmp/use-c")" = "0.1.0 fine" ]
ok $? "and runs"
# shellcheck disable=SC2046,SC2086
${CC:-cc} $flags $(pkg-config --cflags kvslab) -o "$tmp/use-a" "$tmp/use.c" "$lib/libkvslab.a" \
	$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --libs libsodium liburing) -pthread
ok $? "a program builds with the static library"
[ "$("$tmp/use-a")" = "0.1.0 fine" ]
ok $? "and runs"
if command -v "${CXX:-c++}" >/dev/null; then
	# shellcheck disable=SC2046,SC2086
	${CXX:-c++} $flags $(pkg-config --cflags kvslab) -o "$tmp/use-cc" "$tmp/use.cc" \
		$(pkg-config --libs kvslab)
	ok $? "a C++ program builds"
	[ "$(LD_LIBRARY_PATH=$lib "$tmp/use-cc")" = "0.1.0 fine" ]
	ok $? "and runs"
else
	skip "no C++ compiler"
	skip "no C++ compiler"
fi

# A declaration is a name of ours with its parenthesis; comments are gone after the preprocessor.
${CC:-cc} -E -P "$root$prefix/include/kvslab.h" | grep -o 'kvslab_[a-z0-9_]*(' | tr -d '(' | sort -u >"$tmp/declared"
nm -D --defined-only "$lib/libkvslab.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$tmp/exported"
[ "$(wc -l <"$tmp/declared")" -gt 10 ] && diff "$tmp/declared" "$tmp/exported" >"$tmp/diff"
ok $? "it exports what kvslab.h declares, and nothing else"
sed 's/^/# /' "$tmp/diff"
others=$(readelf -d "$lib/libkvslab.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
	grep -vE '^(lib(c|sodium|uring|asan|ubsan|tsan)\.so|ld-linux)' | tr '\n' ' ')
[ -z "$others" ]
ok $? "it needs libsodium, liburing and libc alone: ${others:-yes}"

${MAKE:-make} -s BUILD="$BUILD" uninstall DESTDIR="$root" PREFIX=$prefix >/dev/null
[ -z "$(find "$root" -type f -o -type l)" ]
ok $? "make uninstall leaves nothing"
echo "1..$n"
exit $failed
