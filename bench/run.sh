#!/usr/bin/env bash
# Measures what README and docs/ promise, on this machine, each program alone:
#
#   run.sh [--quick] [NAME...]        all of them if none is named; --quick: minutes
#   run.sh --list                     the names, about how many minutes each takes on 2 cores (with
#                                     the captures that it makes first), and what it measures
#
# Needs:  scripts/build.sh release bench; for some, `make python` and `scripts/setup.sh peers`.
#         `make bench` does all three, and writes docs/performance.md afterwards.
# Result: one JSON file a name in bench/results/, with machine and commit; the figures on stdout.
#         bench/report.py makes docs/performance.md of them. --quick: smaller sizes, to see that all
#         runs, into $ATTNDB_BENCH_DATA/quick; nothing is claimed from it. One that fails does not
#         keep the others from running; the exit code is then 1.
#         `serve` and `agents` have scenarios: ATTNDB_SCENARIOS="reasoning cut" run.sh agents runs
#         these two alone.
# Data:   what is made once (text, capture, store) lies in $ATTNDB_BENCH_DATA, by default
#         build/bench.
# Method: each program alternates the two sides of its ratios within one run (see its first lines).
#         A busy machine spoils figures; how busy it was is printed first, and not corrected.
set -euo pipefail
cd "$(dirname "$0")/.."

# Name, minutes, what it measures. In the order of the runs: later ones use what earlier ones made.
list() {
  cat <<'END'
decode                 1  kernels against the memory's bandwidth
peer                   1  ... against llama.cpp's
planes                 1  scans of key planes against the memory's bandwidth
calls                  3  hand-over of a call to threads, and one thread against two
contexts               2  calls of the store beside 10, 1,000 and 10,000 contexts
tiers                  5  AttentionStore's figures by attndb simulate
tenants                2  what the time of a call tells of other tenants' prefixes
stores                 1  a Store onto 1,024 to 131,072 tokens, and decode steps beside one
serve                 70  attndb serve beside llama.cpp's server (scripts/setup.sh llama-server)
agents                75  agents with tools asking attndb serve and llama.cpp's server, and kill -9
busy                   3  decode alone and beside a busy process, by number of threads
llama                 15  decode, prefill, first token, storage through llama.cpp
attention_8k           3  plans on all heads of SmolLM2 at 8,192 tokens
attention_biased       2  ... with key biases
attention_stretched    8  ... stretched to 131,072 tokens
attention_synthetic    6  Llama 3 8B's geometry, 131,072 tokens, synthetic heads
frontier_8k            4  many plans: the picture
frontier_stretched     6  ... of heads stretched to 131,072 tokens
estimates             10  mass that plans think they leave out, and that they bound, of 10^5 queries
answers               25  greedy answers and perplexity under auto(error=0.01)
truncation           180  sessions that lost their oldest tokens, against recomputing
decode_long           10  decode at 32,768 tokens through llama.cpp
index                 30  recall and time of indexes at 65,536 tokens, beside other libraries'
index_biased          15  ... at 8,192 tokens, the model's own length, with key biases
draws                 60  auto and topk by clusters at 262,144 tokens; most of it the capture
break_even            15  flat, clusters and graphs from 8,192 to 262,144 tokens: the picture
million               30  the same plans on synthetic heads, 131,072 and 1,048,576 tokens
END
}
mapfile -t names < <(list | cut -d ' ' -f 1)
readonly names

readonly bin=build/release/bin data=${ATTNDB_BENCH_DATA:-build/bench}
readonly python=.deps/venv/bin/python
readonly auto='auto(error=0.01)' fast='auto(error=0.03)'
readonly codes='auto(error=0.01,index=pq)' fast_codes='auto(error=0.03,index=pq)'
quick=0
case ${1:-} in
  --list) list; exit ;;
  --quick) quick=1; shift ;;
esac
readonly quick
[[ $# -gt 0 ]] || set -- "${names[@]}"
for name in "$@"; do
  [[ " ${names[*]} " == *" $name "* ]] || { echo "no benchmark '$name': see --list" >&2; exit 2; }
done
[[ -x $bin/attndb-bench ]] || { echo "first: scripts/build.sh release bench" >&2; exit 2; }
results=bench/results
[[ $quick == 0 ]] || results=$data/quick
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[[ -z $(git status --porcelain --untracked-files=no 2>/dev/null) ]] || commit+=+changes
readonly commit results
mkdir -p "$results" "$data"

# pick FULL QUICK: the one that is wanted.
pick() { [[ $quick == 1 ]] && echo "$2" || echo "$1"; }

text() {
  local file=$data/text.txt
  [[ -f $file ]] || python3 bench/python/make_text.py "$file" >&2
  echo "$file"
}

# A capture of the text's first tokens with q of the last 128.
heads() {
  local tokens; tokens=$(pick 8192 1200)
  local file=$data/smollm2_$tokens.safetensors
  [[ -f $file ]] || "$bin/attndb" capture "$(text)" -o "$file" --raw --tokens "$tokens" \
    --queries 128 >&2
  echo "$file"
}

# Captures that are made with the Python package: with_package FILE SCRIPT ARGUMENT...
with_package() {
  local file=$1; shift
  if [[ ! -f $file ]]; then
    "$python" -c 'import attndb' || echo "run.sh: 'make python' makes what $1 needs" >&2
    "$python" "$@" >&2
  fi
  echo "$file"
}
biased_heads() {
  local file; file=$data/biased_$(pick 8192 1200).safetensors
  with_package "$file" bench/python/bias_capture.py "$(heads)" "$file"
}

# attention NAME ROWS ARGUMENT...: a run whose figures go to the file of that name.
attention() {
  local name=$1 rows=$2; shift 2
  [[ $quick == 0 ]] || rows=4
  "$bin/attndb-bench" attention --json --rows "$rows" "$@" |
    python3 bench/python/keep_result.py "$results/$name.json" "$commit"
}

bench_decode() { "$bin/decode_bench" --commit "$commit" --json "$results/decode.json"; }
bench_peer() { "$bin/peer_bench" --commit "$commit" --json "$results/peer.json" --rounds 5; }
bench_planes() {
  "$bin/planes_bench" --commit "$commit" --json "$results/planes.json" --rounds "$(pick 15 2)"
}
bench_calls() {
  "$bin/calls_bench" --commit "$commit" --json "$results/calls.json" --rounds "$(pick 15 1)"
}
bench_contexts() {
  "$bin/contexts_bench" --contexts "$(pick 10000 1000)" --commit "$commit" \
    --json "$results/contexts.json" --rounds "$(pick 15 1)"
}
bench_tiers() {
  python3 bench/python/tiers.py --attndb "$bin/attndb" --json "$results/tiers.json" \
    --commit "$commit" $(pick "" --quick)
}
bench_tenants() {
  "$bin/tenants_bench" --tries "$(pick 10000 100)" --commit "$commit" \
    --json "$results/tenants.json"
}
bench_stores() {
  "$bin/stores_bench" $(pick "" --quick) --commit "$commit" --json "$results/stores.json" \
    --rounds "$(pick 15 1)"
}
bench_serve() {
  python3 bench/python/serve/serve_bench.py --attndb "$bin/attndb" \
    --llama-server .deps/llama-server/llama-server --text "$(text)" --data "$data/serve" \
    --model .deps/models/SmolLM2-135M-Instruct.Q4_1.gguf --json "$results/serve.json" \
    --commit "$commit" $(pick "" --quick) ${ATTNDB_SCENARIOS:-}
}
bench_agents() {
  python3 bench/python/serve/agent_trace.py --attndb "$bin/attndb" \
    --llama-server .deps/llama-server/llama-server --text "$(text)" --data "$data/agents" \
    --model .deps/models/SmolLM2-135M-Instruct.Q4_1.gguf --json "$results/agents.json" \
    --commit "$commit" $(pick "" --quick) ${ATTNDB_SCENARIOS:-}
}
bench_busy() {
  python3 bench/python/beside_busy.py --attndb "$bin/attndb" --text "$(text)" \
    --json "$results/busy.json" --commit "$commit" $(pick "" --quick)
}
bench_llama() {
  "$bin/bench_llama" --commit "$commit" --json "$results/llama.json" \
    --contexts $(pick "0 2048 6000" "0 512")
}
bench_attention_8k() {
  attention attention_8k 16 --capture "$(heads)" --plan "$auto" --plan "$fast" \
    --plan "$codes" --plan "$fast_codes"
}
bench_attention_biased() {
  attention attention_biased 16 --capture "$(biased_heads)" --plan "$auto" --plan "$fast" \
    --plan "$codes" --plan "$fast_codes"
}
bench_attention_stretched() {
  attention attention_stretched 16 --capture "$(heads)" --stretch "$(pick 131072 8192)" \
    --plan "$auto" --plan "$fast" --plan "$codes" --plan "$fast_codes"
}
bench_attention_synthetic() {
  attention attention_synthetic 16 --geometry llama3-8b --dtype bf16 \
    --tokens "$(pick 131072 8192)" --plan "$auto" --plan "$fast"
}
bench_frontier_8k() {
  attention frontier_8k 16 --capture "$(heads)" --sweep
}
bench_frontier_stretched() {
  attention frontier_stretched 16 --capture "$(heads)" --layers "$(pick 0,9,19,29 12)" \
    --stretch "$(pick 131072 8192)" --sweep
}
bench_estimates() {
  attention estimates 112 --capture "$(heads)" \
    --plan 'topk(k=64,bits=4,remainder=sample:64)' \
    --plan 'topk(k=256,bits=4,remainder=sample:256)' \
    --plan 'mass(p=0.9,bits=4,remainder=sample:64)' \
    --plan 'mass(p=0.95,bits=8,remainder=sample:64)' \
    --plan 'topk(k=64,bits=8,exact_fallback=1)' \
    --plan 'topk(k=256,bits=8,exact_fallback=1)' \
    --plan 'mass(p=0.95,bits=8,exact_fallback=1)' \
    --plan 'mass(p=0.95,bits=4,exact_fallback=1)'
}
bench_answers() {
  local quick_sizes='--document-tokens 1024 --num-questions 2 --pieces 1 --piece-tokens 640'
  "$bin/bench_answers" --text "$(text)" --questions bench/e2e/questions.txt \
    --store "$data/answers_store" --commit "$commit" --json "$results/answers.json" \
    $(pick "" "$quick_sizes --scored-tokens 128")
}
bench_truncation() {
  local documents=$data/truncation
  [[ -f $documents/sources.json ]] ||
    python3 bench/python/truncation_documents.py "$documents" >&2
  local program=("$bin/bench_truncation" --documents "$documents" --commit "$commit"
    --json "$results/truncation.json")
  if [[ $quick == 1 ]]; then
    "${program[@]}" speed stream codes edits --rounds 3 --num-documents 1 --window 512 \
      --segments 1 --choices 1 --texts 1
    return
  fi
  "${program[@]}" speed positions stream codes edits
  "${program[@]}" stream --window 4096 --choices 0
}
bench_decode_long() {
  "$bin/bench_decode" --text "$(text)" --store "$data/long_store" --context "$(pick 32768 2048)" \
    --rounds "$(pick 15 2)" --commit "$commit" --json "$results/decode_long.json"
}

readonly index_layers=3,6,9,12,15,18,21,24,27

# A capture at a length that the model was not trained for, with all of q.
# long_heads TEXT TOKENS FACTOR QUERIES
long_heads() {
  local file=$data/smollm2_yarn_$2.safetensors
  [[ -f $file ]] || "$bin/attndb" capture "$1" -o "$file" --raw --tokens "$2" --queries "$4" \
    --layers "$index_layers" --rope-scaling "yarn:$3" \
    --plan 'window(sink=64,window=4096)' >&2
  echo "$file"
}
long_text() {
  local file=$data/long_text.txt
  [[ -f $file ]] || python3 bench/python/make_text.py "$file" 1200000 >&2
  echo "$file"
}
bench_draws() {
  local tokens; tokens=$(pick 262144 8192)
  local by='auto(error=0.01,index=clustered'
  attention draws 16 --repeat "$(pick 4 1)" --plan "$auto" --plan 'auto(error=0.01,index=flat)' \
    --plan "$by)" --plan "$by,effort=1)" --plan "$by,effort=1.5)" \
    --plan 'topk(k=512,bits=4)' --plan 'topk(k=512,index=clustered)' \
    --capture "$(long_heads "$(long_text)" "$tokens" 32 $((tokens / 4)))"
}
index_heads() {
  local tokens; tokens=$(pick 65536 4096)
  long_heads "$(text)" "$tokens" 8 "$tokens"
}
# With all of q: of the model as it is, and with key biases.
natural_heads() {
  local tokens; tokens=$(pick 8192 1200)
  local file=$data/smollm2_q_$tokens.safetensors
  [[ -f $file ]] || "$bin/attndb" capture "$(text)" -o "$file" --raw --tokens "$tokens" \
    --queries "$tokens" --layers "$index_layers" >&2
  echo "$file"
}
biased_index_heads() {
  local file; file=$data/biased_q_$(pick 8192 1200).safetensors
  with_package "$file" bench/python/bias_capture.py "$(natural_heads)" "$file"
}
# against_peers NAME CAPTURE_FUNCTION: a comparison with nobody is not kept, but for --quick.
against_peers() {
  local peers=.deps/peers/bin/python command=
  if [[ -x $peers ]]; then
    command="$peers bench/python/index_peers.py"
  else
    echo "$1: $(pick skipped "without peers"): 'scripts/setup.sh peers' has not set them up"
    [[ $quick == 1 ]] || return 0
  fi
  [[ -z $command || -z ${ROARGRAPH:-} ]] || command+=" --roargraph $ROARGRAPH"
  "$bin/attndb-bench" index --json --capture "$("$2")" --peers "$command" --segment-tokens 65536 \
    --heads 3:0,6:1,9:2,12:1,15:0,18:2,21:1,24:2,27:0 --num-queries "$(pick 64 8)" |
    python3 bench/python/keep_index_result.py "$results/$1.json" "$commit"
}
bench_index() { against_peers index index_heads; }
bench_index_biased() { against_peers index_biased biased_index_heads; }

# Plans that do the same by a scan and by each index.
readonly by_all=(--plan "$auto" --plan 'auto(error=0.01,index=flat)'
  --plan 'auto(error=0.01,index=clustered)' --plan 'topk(k=100,bits=4)'
  --plan 'topk(k=100,index=clustered)' --plan 'topk(k=100,index=graph)')
# One line a run of `attndb-bench attention`, each with arguments of its own.
keep_lines() { python3 bench/python/keep_lines.py "$results/$1.json" "$commit"; }
bench_break_even() {
  local tokens group
  for group in 3 1; do
    for tokens in $(pick "8192 16384 32768 65536" "2048 4096"); do
      "$bin/attndb-bench" attention --json --rows 16 --repeat "$(pick 8 1)" \
        --capture "$(index_heads)" --first-tokens "$tokens" --group-size "$group" "${by_all[@]}"
    done
    "$bin/attndb-bench" attention --json --rows 16 --repeat "$(pick 8 1)" "${by_all[@]}" \
      --capture "$(long_heads "$(long_text)" "$(pick 262144 8192)" 32 "$(pick 65536 2048)")" \
      --group-size "$group"
  done | keep_lines break_even
}
synthetic() {
  local file=$data/synthetic_$1.safetensors
  with_package "$file" bench/python/synthetic_capture.py "$file" --tokens "$1" \
    --queries "$(pick 32768 1024)"
}
bench_million() {
  local tokens
  for tokens in $(pick "131072 1048576" "4096 8192"); do
    "$bin/attndb-bench" attention --json --rows 16 --repeat "$(pick 4 1)" \
      --capture "$(synthetic "$tokens")" "${by_all[@]}"
  done | keep_lines million
}

main() {
  trap "exit 130" INT  # Programs that Ctrl-C ends have exit codes of their own.
  local name status failed=()
  for name in "$@"; do
    echo "== $name (load before: $(cut -d ' ' -f 1 /proc/loadavg))"
    SECONDS=0
    set +e  # In the subshell it holds only where nothing outside asks for the status.
    (set -e; "bench_$name")
    status=$?
    set -e
    [[ $status == 0 ]] || failed+=("$name")
    echo "== $name: $SECONDS s$([[ $status == 0 ]] || echo ", failed with status $status")"
  done
  [[ ${#failed[@]} == 0 ]] || { echo "failed: ${failed[*]}" >&2; exit 1; }
}
main "$@"; exit  # In one line: this file may change while it runs.
