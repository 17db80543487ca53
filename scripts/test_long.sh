#!/usr/bin/env bash
# The tests at the sizes that prove: what `make test` runs smaller. Hours.
#
#   scripts/test_long.sh [PART...]      all of: unit rooms kills flips cpu agreement transformers
#                                       server chats fuzz asan tsan tsan-engine asan-server
#                                       tsan-server stress
#   scripts/test_long.sh --list         PART PROGRAM, a line each: what runs at full size
#
#   unit          the unit tests that have two sizes
#   rooms         the rooms that an Attend and a Store enter, against ARCHITECTURE.md; builds a
#                 preset of its own
#   kills         processes killed on one store, 200
#   flips         flipped bits, 5,000 and 1,000, operations that fail, and wrong values in a
#                 catalog, under AddressSanitizer and UBSan
#   cpu           all tests of kernels on emulated CPUs
#   agreement     logits against llama.cpp's: 20 prompts, 8 of them of 1,000 to 2,000 tokens
#   transformers  tokens and logits against transformers' own cache: 10 prompts of up to 4,000
#   server        a server under load for 30 minutes, killed every 30 s; then each token is judged
#   chats         llama.cpp's own server renders the chats again that recorded_chats_test compares
#                 with: each of its templates, 300 chats with each. Then both servers answer
#                 requests that require a call, with each template
#   fuzz          each fuzz target for 10 minutes; FUZZ_SECONDS=60 for one
#   asan          all tests of the C++ library under AddressSanitizer and UBSan, those that are slow
#                 there, too
#   tsan          all tests of the C++ library that run in several threads, under ThreadSanitizer
#   tsan-engine   llama.cpp's adapter on tiny models, in two of ggml's threads, likewise
#   asan-server   the server under AddressSanitizer and UBSan: 20 minutes of mixed requests and
#                 restarts on a tiny model; MIXED_SECONDS=60 for one
#   tsan-server   the same under ThreadSanitizer, llama.cpp too
#   stress        every test of the release build 20 times, on a machine that is made slow and busy;
#                 a day on 2 cores. STRESS_ROUNDS=3 and STRESS_TESTS=regex run less. A run that is
#                 broken off, or that STRESS_SECONDS=3000 ends, writes no line: the next call runs
#                 the tests that are left (scripts/stress.py). The build `asan` is left out: it has
#                 the same programs, at several times the cost
#
# Each part that passes writes its line into the table of docs/testing.md, so that a run that was
# broken off goes on with the parts that are left. Logs: build/long/PART.log.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/counts.sh

readonly all=(unit rooms kills flips cpu agreement transformers server chats fuzz asan tsan
             tsan-engine asan-server tsan-server stress)
# The programs, and the files of pytest, that have a size: a use that none of them reaches is an
# error (tests/lint/sizes_test.py).
readonly -A sized=(
  [unit]="attention_test llama_damage_test recorded_chats_test reply_formats_test store_test
          testing_test"
  [kills]=kill_test
  [flips]="bit_flip_test fault_test api_test"
  [agreement]=llama_smollm2_test
  [transformers]="python/tests/hf/test_smollm2.py python/tests/hf/test_capture_smollm2.py
                  python/tests/hf/test_interchange_smollm2.py python/tests/hf/test_sizes.py"
)
export ATTNDB_TEST_SIZE=long

run_sized() {  # run_sized PRESET PART: each program of the part, whole.
  local program
  scripts/build.sh "$1" ${sized[$2]}
  for program in ${sized[$2]}; do "build/$1/bin/$program"; done
}

unit() {
  local log=build/long/unit-tests.log
  scripts/setup.sh templates
  GTEST_BRIEF=1 run_sized release unit 2>&1 | tee "$log"
  print_tests "$log"
}

rooms() {
  python3 -B tests/rooms/rooms_test.py
  print_count 2 ways of a call
}

kills() { run_sized release kills; }

flips() { ASAN_OPTIONS=detect_stack_use_after_return=1 run_sized asan flips; }

cpu() {
  scripts/build.sh release
  ctest --preset release -R '^cpu_test$' -V
}

agreement() { run_sized release agreement; }

transformers() {
  scripts/setup.sh python
  scripts/build.sh release attndb_programs
  scripts/install_python.sh
  OMP_NUM_THREADS=1 .deps/venv/bin/python -B -m pytest -q -s -p no:cacheprovider \
    ${sized[transformers]}
}

server() {
  scripts/setup.sh engine clients
  scripts/build.sh release attndb_programs judge_turns
  .deps/clients/bin/python -B -m pytest -q -s -p no:cacheprovider \
    --attndb build/release/bin/attndb --load-seconds "${LOAD_SECONDS:-1800}" --kill-every 30 \
    tests/server/load_test.py
}

chats() {
  local log=build/long/chats-check.log
  scripts/setup.sh engine templates llama-server clients
  python3 -B tests/server/record_llama_server.py --check | tee "$log"
  print_count "$(tail -n 1 "$log")"
  scripts/build.sh release attndb_programs
  .deps/clients/bin/python -B -m pytest -q -s -p no:cacheprovider \
    --attndb build/release/bin/attndb --llama-server .deps/llama-server/llama-server \
    tests/server/required_calls_test.py
}

fuzz() { scripts/fuzz.sh "${FUZZ_SECONDS:-600}"; }

run_sanitized() {  # run_sanitized CONFIGURE_PRESET TEST_PRESET
  local log=build/long/$1-ctest.log
  scripts/build.sh "$1"
  # Each test of its own is short: what a long run adds is the sanitizer.
  ATTNDB_TEST_SIZE=short ctest --preset "$2" -V -j "$(nproc)" >"$log" || { cat "$log"; return 1; }
  tail -n 4 "$log"
  print_tests "$log"
}

asan() { run_sanitized asan asan-all; }

tsan() {
  local tests
  scripts/build.sh release
  tests=$(ATTNDB_TEST_SIZE=short scripts/threaded_tests.py build/release)
  GTEST_FILTER=$tests run_sanitized tsan tsan
}

tsan-engine() {
  local log=build/long/tsan-engine-tests.log
  scripts/setup.sh engine-tsan
  scripts/build.sh tsan-llama llama_test
  # Not those on SmolLM2: they are of text, and would take hours.
  ATTNDB_TEST_SIZE=short GTEST_BRIEF=1 TSAN_OPTIONS=halt_on_error=1 \
    build/tsan-llama/bin/llama_test "--gtest_filter=-ChatTemplateTest.*:EngineGenerateTest.*" \
    >"$log" 2>&1 || { cat "$log"; return 1; }
  print_tests "$log"
}

run_mixed_load() {  # run_mixed_load PRESET: requests to a server that is built with a sanitizer.
  scripts/setup.sh clients
  scripts/build.sh "$1" attndb_programs
  .deps/clients/bin/python -B -m pytest -q -s -p no:cacheprovider \
    --attndb "build/$1/bin/attndb" --mixed-seconds "${MIXED_SECONDS:-1200}" --restart-every 30 \
    --mixed-seed "${ATTNDB_SEED:-$RANDOM}" tests/server/mixed_load_test.py
}

asan-server() {
  scripts/setup.sh engine
  ASAN_OPTIONS=detect_stack_use_after_return=1 run_mixed_load asan-server
}

tsan-server() {
  scripts/setup.sh engine-tsan
  TSAN_OPTIONS=halt_on_error=1 run_mixed_load tsan-llama
}

stress() {
  scripts/setup.sh engine python clients tools
  scripts/build.sh release all bench_test
  scripts/install_python.sh
  ATTNDB_TEST_SIZE=short python3 -B scripts/stress.py build/release
}

list() {
  local part program
  for part in "${all[@]}"; do
    for program in ${sized[$part]:-}; do echo "$part $program"; done
  done
}

if [[ ${1:-} == --list ]]; then
  list
  exit
fi
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
  if [[ $part == server ]]; then python3 -B bench/serve_report.py; fi  # It has a line of this.
done
