#!/usr/bin/env bash
# Configures and builds a preset, quietly: build.sh [--native] PRESET [TARGET...]. Prints what
# failed, if anything, and one line else. The whole log: build/PRESET/build.log. Until llama.cpp is
# set up, what needs it is left out: the library can be built beside it.
#   --native  builds the kernels of this machine's instruction sets and the portable ones only,
#             unless the folder has all. A later call without --native adds the others.
set -euo pipefail
cd "$(dirname "$0")/.."

kernels=all
if [[ $1 == --native ]]; then
  kernels=native
  shift
fi
readonly preset=$1
shift
readonly cache=build/$preset/CMakeCache.txt
if grep -qs '^ATTNDB_KERNELS:STRING=all$' "$cache"; then kernels=all; fi
readonly log=build/$preset/build.log
export CCACHE_STATSLOG=$PWD/build/$preset/ccache.log  # A line for each file: hit or miss.
mkdir -p "build/$preset"

run() {
  "$@" >>"$log" 2>&1 && return
  # Ninja prints a failure in the middle and goes on with what has begun: show from there.
  awk '/^FAILED:|CMake Error/{show=1} show' "$log" | head -n 200 >&2
  echo "$preset: $1 failed; whole log: $log" >&2
  exit 1
}

: >"$log" >"$CCACHE_STATSLOG"
start=$SECONDS
llama=()
if [[ $preset == release ]]; then
  llama=("-DATTNDB_BUILD_LLAMA=$([[ -e .deps/llama ]] && echo ON || echo OFF)")
fi
run cmake --preset "$preset" -DATTNDB_KERNELS=$kernels "${llama[@]}"
run cmake --build --preset "$preset" ${1:+--target "$@"}
scripts/step.sh --note compiled "$preset $(grep -cx cache_miss "$CCACHE_STATSLOG") $(
  grep -cxE '(direct|preprocessed)_cache_hit' "$CCACHE_STATSLOG")"
echo "$preset: built in $((SECONDS - start)) s"
