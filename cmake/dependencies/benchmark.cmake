# Micro-benchmarks. Target: benchmark::benchmark.
attndb_find(benchmark 1.7)
