# Micro-benchmarks (Debian: libbenchmark-dev). Target: benchmark::benchmark.
find_package(benchmark 1.7 REQUIRED)
