#!/usr/bin/env bash
# Measures what README and docs/ promise, on this machine, each program alone: run.sh [NAME...]
# (decode, peer, llama; all of them if none is named). About 15 minutes for all.
#
# Result: one JSON file a program in bench/results/, with machine and commit; the figures on stdout.
# Method: each program alternates the two sides of its ratios within one run (see its first lines).
#         A busy machine spoils figures; how busy it was is printed first, and not corrected.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly bin=build/release/bin results=bench/results
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[[ -z $(git status --porcelain --untracked-files=no 2>/dev/null) ]] || commit+=+changes
readonly commit
mkdir -p "$results"

bench_decode() { "$bin/decode_bench" --commit "$commit" --json "$results/decode.json"; }
bench_peer() { "$bin/peer_bench" --commit "$commit" --json "$results/peer.json" --rounds 5; }
bench_llama() { "$bin/bench_llama" --commit "$commit" --json "$results/llama.json"; }

[[ $# -gt 0 ]] || set -- decode peer llama
for name in "$@"; do
  [[ $(type -t "bench_$name") == function ]] || { echo "no benchmark '$name'" >&2; exit 2; }
done
for name in "$@"; do
  echo "== $name (load before: $(cut -d ' ' -f 1 /proc/loadavg))"
  "bench_$name"
done
