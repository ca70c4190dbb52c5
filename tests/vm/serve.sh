# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# For scripts in the guest (busybox sh): servers on a pool of the module, and requests to them.
# shellcheck shell=sh

# A small one: the guest may be emulated, and floats are slow there.
model=f32-gqa8

start_server() { # start_server PORT POOL: pid in $server
	kvslab serve -m $model.gguf --port "$1" --pool "$2" --threads 1 --log-file "server-$1.log" &
	server=$!
	waited=0
	until wget -q -O /dev/null "http://127.0.0.1:$1/health" 2>/dev/null; do
		sleep 0.2
		waited=$((waited + 1))
		if [ $waited -gt 300 ] || ! kill -0 $server 2>/dev/null; then
			cat "server-$1.log"
			return 1
		fi
	done
}

# More than a thousand tokens, different for each seed.
prompt() { # prompt SEED WORDS
	awk -v seed="$1" -v n="$2" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "word%d ", rand() * 1000 }'
}

complete() { # complete PORT PROMPT [TOKENS]: the answer's JSON
	wget -q -O - --header 'Content-Type: application/json' --post-data \
		"{\"prompt\": \"$2\", \"max_tokens\": ${3:-1}, \"temperature\": 1, \"seed\": 7}" "http://127.0.0.1:$1/v1/completions"
}

field() { # field NAME <JSON: the number after the first "NAME":
	sed -n "s/.*\"$1\": *\\([0-9.]*\\).*/\\1/p" | head -1
}

text() { # text <JSON: what was answered, as JSON has it
	sed -n 's/.*"text": *"\(\([^"\\]\|\\.\)*\)".*/\1/p' | head -1
}

first_token() { # first_token PORT: microseconds to first tokens so far, in all
	wget -q -O - "http://127.0.0.1:$1/metrics" |
		awk '/^kvslab:time_to_first_token_seconds_sum/ { printf "%d\n", $NF * 1000000 }'
}
