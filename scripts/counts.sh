# What a run has done and by which seed, as lines that scripts/long_runs.py finds: for scripts, what
# testing/test_size.h and testing/seed.h are in C++, and python/tests/hf/sizes.py in Python.

print_count() {  # print_count 200 kills
  echo "ATTNDB_COUNT $*"
}

print_seed() {  # print_seed 17
  echo "ATTNDB_SEED=$1"
}

# Prints, from a log of GoogleTest programs, the seeds that they printed and how many tests passed.
print_tests() {  # print_tests LOG
  local seed seeds
  seeds=$(sed -nE 's/.*ATTNDB_SEED=([0-9]+).*/\1/p' "$1" | sort -nu)
  for seed in $seeds; do print_seed "$seed"; done
  print_count "$(awk '/\[  PASSED  \] [0-9]+ test/ {
                        for (i = 1; i < NF; i++) if ($i == "]") sum += $(i + 1)}
                      END {print sum + 0}' "$1")" tests
}
