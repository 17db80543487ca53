#!/usr/bin/env bash
# What is run before each commit: check.sh [JOBS]. Layers, format and style of the sources; whether
# those that differ from the last commit compile alone; then the unit tests of every layer, as far
# as they can have changed, with this machine's kernels (`make test` tries the others). Needs no
# model, no torch and no llama.cpp.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly jobs=${1:-$(nproc)}
set -m  # The build is a process group: to end it is to end Ninja, too, not its script alone.
scripts/step.sh "build: unit tests" scripts/build.sh release unit_tests </dev/null &
readonly build=$!
set +m
trap 'kill -- "-$build" 2>/dev/null && wait "$build" || true' EXIT
python3 -B scripts/check_layers.py
python3 -B scripts/format.py --check
python3 -B scripts/tidy.py
wait "$build"
trap - EXIT
python3 -B scripts/check_alone.py --changed --compile-commands build/release/compile_commands.json
python3 -B scripts/run_changed.py --build build/release --label unit --jobs "$jobs"
