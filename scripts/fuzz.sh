#!/usr/bin/env bash
# Runs the fuzz targets, each for so long:  scripts/fuzz.sh [SECONDS]   (600)
#
# Builds build/fuzz with clang, ASan and UBSan. What a target finds is written to build/fuzz/found/;
# run the target on that file to see it again. Inputs are drawn by a new seed each time, or by
# ATTNDB_SEED, from an empty corpus, so that a seed draws the same ones in the same order.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/counts.sh

readonly seconds=${1:-600} build=build/fuzz seed=${ATTNDB_SEED:-$((1 + RANDOM * 32768 + RANDOM))}
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_BUILD_TYPE=None -DATTNDB_SANITIZE=address -DATTNDB_FUZZ=ON -DATTNDB_WERROR=OFF \
  -DATTNDB_BUILD_CLI=OFF -DATTNDB_BUILD_BENCH=OFF -DATTNDB_BUILD_EXAMPLES=OFF \
  -DATTNDB_BUILD_LLAMA=OFF >/dev/null
targets=(fuzz/fuzz_*.cc)
targets=("${targets[@]##*/fuzz_}")
targets=("${targets[@]%.cc}")
ninja -C "$build" "${targets[@]/#/fuzz_}"
print_seed "$seed"
for target in "${targets[@]}"; do
  rm -rf "$build/corpus/$target"
  mkdir -p "$build/corpus/$target" "$build/found"
  echo "== fuzz_$target, $seconds s"
  "$build/bin/fuzz_$target" -seed="$seed" -max_total_time="$seconds" -max_len=128 \
    -print_final_stats=1 -artifact_prefix="$build/found/$target-" "$build/corpus/$target" 2>&1 |
    tee "$build/$target.log"
  print_count "$(awk '/^stat::number_of_executed_units:/ {print $2}' "$build/$target.log")" \
    "inputs of fuzz_$target in $seconds s"
done
