# Micro-benchmarks. Target: benchmark::benchmark.
attndb_find(libbenchmark-dev benchmark 1.7)
