#!/usr/bin/env bash
# Runs one step of a command of the Makefile and records its seconds, for `make minutes`.
#
#   step.sh NAME COMMAND...        runs the command; ends with its exit status
#   step.sh --note KEY VALUE       records a fact of a step: KEY is `made` or `compiled`
#
# A record is a line of JSON in build/minutes.jsonl (scripts/minutes.py reads it). MINUTES_RUN has
# the command and the second at which it began. Without MINUTES_RUN nothing is recorded. The script
# is in bash, because the first step installs Python.
set -uo pipefail

record() {  # record MEMBERS_OF_JSON
  local root machine commit changed
  root=$(dirname "${BASH_SOURCE[0]}")/..
  machine=$(sed -n 's/^model name\s*: \(.*\S\)\s*$/\1/p' /proc/cpuinfo 2>/dev/null | head -n 1)
  commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
  changed=$(git -C "$root" status --porcelain --untracked-files=no -- . ':!docs/testing.md' \
              2>/dev/null | head -n 1)
  mkdir -p "$root/build"
  printf '{"run": "%s", "machine": "%s, %d cores", "commit": "%s", %s}\n' "$MINUTES_RUN" \
    "${machine:-$(uname -m)}" "$(nproc)" "$commit${changed:++}" "$1" >>"$root/build/minutes.jsonl"
}

if [[ $1 == --note ]]; then
  [[ -z ${MINUTES_RUN:-} ]] || record "\"$2\": \"$3\""
  exit 0  # A build must not fail because a note can't be written.
fi
name=$1
shift
[[ -n ${MINUTES_RUN:-} ]] || exec "$@"
start=${EPOCHREALTIME/,/.}  # A locale may write a comma.
"$@"
status=$?
record "\"step\": \"$name\", \"start\": $start, \"end\": ${EPOCHREALTIME/,/.}, \"status\": $status"
exit $status
