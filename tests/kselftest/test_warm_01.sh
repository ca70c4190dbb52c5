#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A server is killed in the middle of its work; its successor finds the prefix in the pool: the first token of a prompt
# of more than 1,000 tokens comes in a tenth of the time, and is the same. No private page of the dead one is left.
model=f32-gqa8.gguf
n=0 failed=0
ok() { # ok STATUS WORDS...
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		shift
		echo "ok $n - $*"
	else
		shift
		failed=1
		echo "not ok $n - $*"
		[ ! -s log ] || tail -5 log | sed 's/^/# /'
	fi
}
end() {
	kill -KILL "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	kvslab pool destroy warm 2>&1 | sed 's/^/# /'
	echo "1..$n"
	exit $failed
}
serve() {
	kvslab serve -m $model --pool /dev/kvslab/warm --port 8080 --max-batch 4 --kernels c 2>log &
	pid=$!
	i=0
	until wget -q -O /dev/null http://127.0.0.1:8080/health 2>/dev/null; do
		i=$((i + 1))
		[ $i -lt 300 ] || { ok 1 "a server comes up" && end; }
		sleep 0.1
	done
}
now() { # in 1/100 s
	read -r t _ </proc/uptime
	echo "${t%.*}${t#*.}"
}
ask() { # ask PROMPT TOKENS: $answer, $took
	began=$(now)
	answer=$(wget -q -O - --header 'Content-Type: application/json' --post-data \
		"{\"prompt\":\"$1\",\"max_tokens\":$2,\"temperature\":0}" http://127.0.0.1:8080/v1/completions)
	took=$(($(now) - began))
}
text() { echo "$answer" | sed 's/.*"text":"\([^"]*\)".*/\1/'; }
state() { # state FIELD: a number out of the pool's figures
	kvslab pool stat warm --json | tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | head -1
}

[ -f $model ] || {
	echo "1..0 # SKIP there is no model $model"
	exit 0
}
kvslab pool create warm --max 64M 2>log
ok $? "kvslab pool create"
prompt= i=0
while [ $i -lt 250 ]; do
	prompt="$prompt a b$i"
	i=$((i + 1))
done
serve
ask "$prompt" 1
cold=$took first=$(text)
tokens=$(echo "$answer" | sed -n 's/.*"prompt_tokens":\([0-9]*\).*/\1/p')
[ "${tokens:-0}" -gt 1000 ]
ok $? "a prompt of more than 1,000 tokens: ${tokens:-none}, cold: $cold/100 s"

# Killed while it answers something else.
wget -q -O /dev/null --header 'Content-Type: application/json' \
	--post-data '{"prompt":"once upon a time","max_tokens":400}' http://127.0.0.1:8080/v1/completions 2>/dev/null &
sleep 1
busy=$(state private)
kill -KILL $pid
wait $pid 2>/dev/null
[ "${busy:-0}" -gt 0 ]
ok $? "killed with private pages: $busy"
i=0
while [ "$(state private)" != 0 ] && [ $i -lt 50 ]; do
	sleep 0.1
	i=$((i + 1))
done
left=$(state private)
[ "$left" = 0 ]
ok $? "none of them is left: $left"

serve
ask "$prompt" 1
[ "$(text)" = "$first" ]
ok $? "its successor gives the same token"
echo "$answer" | grep -q '"cached_tokens": *1[0-9][0-9][0-9]'
ok $? "out of the pool: $(echo "$answer" | sed -n 's/.*\("cached_tokens":[ 0-9]*\).*/\1/p')"
[ $((took * 10)) -lt "$cold" ]
ok $? "in under a tenth of the time: $took/100 s, cold $cold/100 s"
end
