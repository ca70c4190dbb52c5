#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
# usage: [PORT=8080] [KEEP=1] scripts/demo.sh [build/kvslab]
# Starts the server on a real model, streams eight chats from it at once, four of them with the same long beginning, and
# shows its figures. Exit 0 only if every chat has an answer, the beginning was computed once and shared, no page is left
# private, and the server ends as it should. KEEP=1 leaves it running.
set -euo pipefail
cd "$(dirname "$0")/.."
kvslab=${1:-build/kvslab}
say() { echo "demo: $*" >&2; }
fail() {
	say "$*"
	exit 1
}

[ -x "$kvslab" ] || fail "$kvslab is not there; run make first"
case ${KEEP:=0} in
0 | no | "") KEEP= ;;
1 | yes) ;;
*) fail "KEEP is \"$KEEP\"; give 1 or 0" ;;
esac
model=$(scripts/get-model.sh)
# The demo's server has its own options.
for name in $(compgen -e KVSLAB_ || true); do
	unset "$name"
done
tmp=$(mktemp -d)
log=$tmp/log
server=
chats=
finish() {
	[ -z "$chats" ] || kill "$chats" 2>/dev/null || true
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -n "$KEEP" ]; then
	log=build/demo.log
	mkdir -p build
	: >"$log"
fi

# One line: a prompt is a line.
letter=$(tr '\n' ' ' <<'TEXT'
Read this letter from the keeper of a lighthouse. Dear sister, you ask how I live on the rock, so I will tell you. I
rise at four, when the lamp has burned for ten hours and its glass is black with smoke. I climb the one hundred and
twelve steps with a bucket of warm water and a soft cloth, and I clean the lens until I can see my own face in every
prism. Then I trim the wicks, fill the tank with oil, and wind the clock that turns the light. By six I am at
breakfast: bread, herring, and coffee with goat's milk, for I keep two goats, Bella and Old Tom, who give me more
trouble than any storm. In the morning I paint. Everything here must be painted twice a year, because the salt eats
it, and the owners pay for white paint and nothing else. In the afternoon I write the log: the wind, the ships, the
height of the sea. Last Tuesday I counted nineteen ships, and one of them, the Marigold, signalled that she had lost
her rudder. I rowed out to her with a rope, and we held her off the reef until the tide turned. Her captain gave me a
barrel of apples and a small brass telescope, which I shall send to your boy on his birthday. The supply boat comes on
the first Monday of the month if the weather allows it, and it brings flour, oil, letters, and the newspaper, which I
read slowly, one page a day, so that it lasts. At night I play chess against myself, and I lose. I am not lonely. The
light goes round, the ships go by, and each of them knows that somebody is awake. Your loving brother, Edmund.
TEXT
)
cat >"$tmp/prompts" <<TEXT
$letter Question: What are the names of the two goats?
What is the capital of France, and what is it known for?
$letter Question: What did the captain of the Marigold give to Edmund?
Write two sentences about the sea.
$letter Question: How many ships did Edmund count last Tuesday?
Explain to a child why the sky is blue.
$letter Question: Summarise the letter in one sentence.
Give me three tips for learning a new language.
TEXT

start() { # start PORT
	: >"$log"
	if [ -n "$KEEP" ]; then
		setsid "$kvslab" serve -m "$model" --port "$1" </dev/null >/dev/null 2>>"$log" &
	else
		"$kvslab" serve -m "$model" --port "$1" </dev/null >/dev/null 2>>"$log" &
	fi
	server=$!
	until grep -q msg=ready "$log"; do
		if ! kill -0 "$server" 2>/dev/null; then
			wait "$server" || true
			server=
			return 1
		fi
		sleep 0.05
	done
	url=$(sed -n 's/.*msg=listening address=//p' "$log")
}

say "starting the server"
if ! start "${PORT:-8080}"; then
	# The usual port is often somebody's; one that was asked for is not exchanged for another.
	if [ -n "${PORT:-}" ] || ! grep -q 'already in use' "$log" || ! start 0; then
		cat "$log" >&2
		fail "the server did not start; its words are above"
	fi
fi
say "it is at $url/, where a page shows the pool live; eight chats are streamed from it at once"
echo
# A signal's trap waits for a command, but not for `wait`.
python3 scripts/demo.py "$url" "$tmp/prompts" &
chats=$!
wait "$chats"
chats=
echo
if [ -n "$KEEP" ]; then
	say "all of it worked; the server goes on"
	say "open $url/ in a browser; its log is $log; stop it with: kill $server"
	server=
	exit 0
fi
kill "$server"
status=0
wait "$server" || status=$?
server=
[ "$status" -eq 0 ] || fail "the server ended with status $status"
say "all of it worked; the server is stopped. To open its page in a browser, keep it: make demo KEEP=1"
