#!/usr/bin/env bash
# Runs every test of the builds `asan` and `release`: test.sh [JOBS]. Both run, even if the first
# fails. Its last lines are ctest's.
set -uo pipefail
cd "$(dirname "$0")/.."

status=0
for preset in asan release; do
  ctest --preset "$preset" -j "${1:-$(nproc)}" || status=1
done
exit $status
