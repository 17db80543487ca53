// Median and spread of repeated measurements.
//
// Threads: values.
// Units:   the samples'.
#ifndef ATTNDB_BENCH_SAMPLE_STATS_H_
#define ATTNDB_BENCH_SAMPLE_STATS_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace attndb::bench {

struct SampleStats {
  double median = 0;
  double mad = 0;  // Median absolute deviation from the median.
  size_t count = 0;
};

// All are zero if there are no samples.
SampleStats Summarize(std::vector<double> samples);

// "model name" of the CPU, number of threads it has, and the kernel's release.
struct Machine {
  std::string cpu;
  unsigned num_cpus = 0;
  std::string kernel;
};
Machine DescribeMachine();

// The machine as reports show it. `isa`: the instruction set that the kernels ran with.
nlohmann::json MachineJson(const Machine& machine, std::string_view isa);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_SAMPLE_STATS_H_
