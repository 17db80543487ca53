#!/usr/bin/env bash
# The main job on a real model. One process reads a text once and stores what it read. Three more
# processes answer questions from the store. The last answer is compared with plain llama.cpp's,
# which reads the whole text again for it: that takes longer than all the rest.
#
#   demo.sh [PATH OF attndb] [FOLDER OF THE STORE]      the store's folder is emptied first
#
# Exits with 1 if an answer is not the right one, with the command's status if it failed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly attndb=${1:-build/release/bin/attndb} store=${2:-build/demo-store}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
attndb() { "$attndb" "$@" --db "$store"; }

ask() {  # ask QUESTION WORDS_OF_THE_ANSWER [FLAG...]
  printf '\n> %s\n' "$1"
  attndb ask --model smollm2 --context handbook --plan full "${@:3}" "$1" | tee "$answer"
  grep -qF "$2" "$answer" || { echo "demo: the answer should have had '$2' in it" >&2; exit 1; }
}

rm -rf "$store"
attndb import --model smollm2 --name handbook examples/data/lighthouse.md
ask "When was the Skerry Point lighthouse built?" "1874"
ask "Who is the captain of the Petrel?" "Tom Garrick"
ask "What is the cat's name?" "Biscuit" --check

cat <<END

The store stays in $store. Ask it yourself:
  $attndb ask --db $store --context handbook "How many steps does the stair have?"
END
