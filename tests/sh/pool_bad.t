#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# kvslab pool with bad input, and --pool with nodes that are none: one message, with what to do. Without the module, too.
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/tap.sh
[ -x "$kvslab" ] || skip_all "$kvslab is not built"
pool=("$kvslab" pool)

fails 'what to do is not given; give create, list, stat, set, destroy or policy' "no verb" -- "${pool[@]}"
fails '"drop" is nothing that can be done' "another verb" -- "${pool[@]}" drop chat
fails 'no pool is named' "create without a name" -- "${pool[@]}" create --max 1G
fails 'no pool is named' "set without a name" -- "${pool[@]}" set --max 1G
fails 'no pool is named' "destroy without a name" -- "${pool[@]}" destroy
fails 'one word too many' "two names" -- "${pool[@]}" create a b --max 1G
fails '--max is not given; say how much chat may hold' "create without --max" -- "${pool[@]}" create chat
fails '--max is 1048576 bytes, less than an extent; give 2M or more' "a pool below an extent" -- "${pool[@]}" create chat --max 1M
fails '--min is 4096 bytes, less than an extent' "a guarantee below an extent" -- "${pool[@]}" create chat --max 1G --min 4K
fails '--max is "lots"; give a size' "a size that is none" -- "${pool[@]}" create chat --max lots
fails '--min is more than --max' "more guaranteed than allowed" -- "${pool[@]}" create chat --max 1G --min 2G
fails '--mode is "rw"; give octal' "a mode in letters" -- "${pool[@]}" create chat --max 1G --mode rw
fails '--mode is "0777"; give octal' "a mode with x" -- "${pool[@]}" create chat --max 1G --mode 0777
fails '--owner .no user has that name. is "nobody-of-that-name"' "an unknown user" -- "${pool[@]}" create chat --max 1G --owner nobody-of-that-name
fails '--group .no group has that name. is "no-such-group"' "an unknown group" -- "${pool[@]}" create chat --max 1G --group no-such-group
fails '--high is "101"; give a number' "a mark above the limit" -- "${pool[@]}" create chat --max 1G --high 101
fails '--numa is "-1"; give a whole number' "a NUMA node below 0" -- "${pool[@]}" create chat --max 1G --numa -1
fails '--cgroup /no/such/group: No such file.*control groups' "a control group that is not there" -- "${pool[@]}" create chat --max 1G --cgroup /no/such/group
for name in .hidden control a/b "a b" "$(printf 'x%.0s' {1..32})" ''; do
	fails "pool's name" "a pool called \"$name\"" -- "${pool[@]}" create "$name" --max 1G
done
fails 'list takes no name' "list with a name" -- "${pool[@]}" list chat

if [ ! -e /dev/kvslab/control ]; then
	for verb in list stat "stat chat" "create chat --max 1G" "set chat --max 1G" "destroy chat"; do
		# shellcheck disable=SC2086 # words
		fails 'is the module loaded\? insmod kvslab.ko' "$verb without the module" -- "${pool[@]}" $verb
	done
fi

model=build/models/f32-llama.gguf
if [ -f build/models/.made ]; then
	run_it=("$kvslab" run -m $model -p hello -n 2 --pool)
	fails 'is "shm:1G"; give embedded:SIZE, as in embedded:512M, or a pool.s node' "a pool of no kind" -- "${run_it[@]}" shm:1G
	fails 'there is no /dev/kvslab/no-such-pool' "a node that is not there" -- "${run_it[@]}" /dev/kvslab/no-such-pool
	fails '/dev/null is no pool' "another device" -- "${run_it[@]}" /dev/null
	fails '/etc/passwd is no pool' "a file" -- "${run_it[@]}" /etc/passwd
	if [ "$(id -u)" -ne 0 ]; then
		fails 'permission denied; it is open to uid 0' "a node of somebody else" -- "${run_it[@]}" /dev/console
	fi
fi
finish
