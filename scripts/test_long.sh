#!/usr/bin/env bash
# The tests at the sizes that prove: what `make test` runs smaller. Hours.
#
#   scripts/test_long.sh [PART...]      all of: kills flips agreement transformers fuzz tsan
#
#   kills         processes killed on one store, 200
#   flips         flipped bits, 5,000 and 1,000, under AddressSanitizer and UBSan
#   agreement     logits against llama.cpp's: 20 prompts, 8 of them of 1,000 to 2,000 tokens
#   transformers  tokens and logits against transformers' own cache: 10 prompts of up to 4,000
#   fuzz          each fuzz target for 10 minutes; FUZZ_SECONDS=60 for one
#   tsan          all tests of the C++ library under ThreadSanitizer
#
# Each part that passes writes its line into the table of docs/testing.md, so that a run that was
# broken off goes on with the parts that are left. Logs: build/long/PART.log.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly all=(kills flips agreement transformers fuzz tsan)
export ATTNDB_TEST_SIZE=long

kills() {
  scripts/build.sh release kill_test
  build/release/bin/kill_test
}

flips() {
  scripts/build.sh asan bit_flip_test
  ASAN_OPTIONS=detect_stack_use_after_return=1 build/asan/bin/bit_flip_test
}

agreement() {
  scripts/build.sh release llama_smollm2_test
  build/release/bin/llama_smollm2_test
}

transformers() {
  scripts/setup.sh python
  scripts/install_python.sh
  OMP_NUM_THREADS=1 .deps/venv/bin/python -B -m pytest -q -s -p no:cacheprovider \
    python/tests/hf/test_smollm2.py
}

fuzz() { scripts/fuzz.sh "${FUZZ_SECONDS:-600}"; }

tsan() {
  local log=build/long/tsan-ctest.log
  scripts/build.sh tsan
  # Each test of its own is short: what a long run adds is the sanitizer.
  ATTNDB_TEST_SIZE=short ctest --preset tsan -V -j "$(nproc)" >"$log" || { cat "$log"; return 1; }
  tail -n 4 "$log"
  awk '/\[  PASSED  \] [0-9]+ test/ {for (i = 1; i < NF; i++) if ($i == "]") sum += $(i + 1)}
       END {print "ATTNDB_COUNT", sum + 0, "tests"}' "$log"
}

(($#)) || set -- "${all[@]}"
for part in "$@"; do
  [[ " ${all[*]} " == *" $part "* ]] || {
    echo "test_long: no part '$part'; expected some of: ${all[*]}" >&2
    exit 2
  }
done
mkdir -p build/long
for part in "$@"; do
  echo "== $part"
  start=$SECONDS
  ( set -euo pipefail; "$part" ) 2>&1 | tee "build/long/$part.log"
  python3 -B scripts/long_runs.py "$part" "build/long/$part.log" --seconds $((SECONDS - start))
done
