#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# docs/uapi.md: its program compiles without a warning against the installed header; every command, flag and event of the
# header stands in the text. With a pool's node in KVSLAB_NODE the program is run.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh

mkdir -p "$tmp/include/linux"
cp kmod/uapi/kvslab.h "$tmp/include/linux/"
sed -n '/^```c$/,/^```$/p' docs/uapi.md | sed '1d;$d' >"$tmp/example.c"
[ "$(wc -l <"$tmp/example.c")" -gt 50 ]
ok $? "the program is in the text"
run "${CC_EXAMPLE:-gcc}" -std=gnu11 -Wall -Wextra -Werror -O1 -static -I "$tmp/include" -o "$tmp/example" "$tmp/example.c"
ok "$status" "it compiles"
run gcc -std=gnu11 -Wall -Wextra -Werror -x c -fsyntax-only -I "$tmp/include" -include linux/kvslab.h /dev/null
ok "$status" "the header stands alone"
run g++ -std=c++17 -Wall -Wextra -Werror -x c++ -fsyntax-only -I "$tmp/include" -include linux/kvslab.h /dev/null
ok "$status" "in C++ too"

for word in $(grep -oE '\bKVSLAB_(CMD|CTL|MAP|EVENT|TIER|CACHE|ALLOC|SEAL|EXPORT|DESTROY|POOL)_[A-Z]+\b' kmod/uapi/kvslab.h |
	sort -u | grep -vE '_(BATCH|EXTENT|HASH|CLASSES)$'); do
	short=${word#KVSLAB_CMD_}
	grep -qE "$word|\\b$short\\b|\`_${word##*_}\`" docs/uapi.md || echo "$word"
done >"$tmp/missing"
[ ! -s "$tmp/missing" ]
ok $? "every name of the header is explained $(tr '\n' ' ' <"$tmp/missing")"
for word in $(grep -oE 'struct kvslab_[a-z_]+ \{' kmod/uapi/kvslab.h | sed 's/struct \(.*\) {/\1/'); do
	grep -q "$word" docs/uapi.md || echo "$word"
done >"$tmp/missing"
[ ! -s "$tmp/missing" ]
ok $? "every structure is named $(tr '\n' ' ' <"$tmp/missing")"

if [ -n "$KVSLAB_NODE" ]; then
	run "$tmp/example" "$KVSLAB_NODE"
	[ "$status" -eq 0 ] && grep -q 'found 1 page, the same: yes, its last byte: 0x5a' "$tmp/out"
	ok $? "it runs on $KVSLAB_NODE: $(head -1 "$tmp/out")"
else
	skip "no node is given" "it runs"
fi
finish
