#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# What README.md shows works: the program in it, the commands, the files it points to.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh
[ -f "$BUILD/libkvslab.a" ] || skip_all "$BUILD/libkvslab.a is not built"

sed -n '/^```c$/,/^```$/{/^```/d;p}' README.md >"$tmp/example.c"
lines=$(wc -l <"$tmp/example.c")
[ "$lines" -gt 10 ] && [ "$lines" -le 30 ]
ok $? "the program is short ($lines lines)"
run gcc -std=gnu11 -Wall -Wextra -Werror -Iruntime/include -o "$tmp/example" "$tmp/example.c" "$BUILD/libkvslab.a" \
	-lsodium -luring -pthread
ok "$status" "it builds without a warning"
run "$tmp/example"
# all full pages are found; the last token is always computed
[ "$status" -eq 0 ] && grep -qx '[6-9][0-9] of 100 tokens are in the pool already' "$tmp/out"
ok $? "it finds the first sequence's tokens: $(cat "$tmp/out")"

missing=
for file in $(grep -o '](\([^)]*\))' README.md | tr -d '()]'); do
	[ -e "$file" ] || missing="$missing $file"
done
[ -z "$missing" ]
ok $? "the files it points to are there$missing"
missing=
for target in $(grep -o '^    make [a-z-]*' README.md | cut -d' ' -f6 | sort -u) model; do
	make -n "$target" >/dev/null 2>&1 || missing="$missing $target"
done
[ -z "$missing" ]
ok $? "make knows its targets$missing"
finish
