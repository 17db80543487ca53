#include "bench/sample_stats.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

namespace attndb::bench {
namespace {

double Median(std::vector<double>* samples) {
  std::sort(samples->begin(), samples->end());
  return ((*samples)[samples->size() / 2] + (*samples)[(samples->size() - 1) / 2]) / 2;
}

}  // namespace

SampleStats Summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  SampleStats stats = {.median = Median(&samples), .mad = 0, .count = samples.size()};
  for (double& sample : samples) sample = std::abs(sample - stats.median);
  stats.mad = Median(&samples);
  return stats;
}

Machine DescribeMachine() {
  Machine machine;
  machine.num_cpus = std::thread::hardware_concurrency();
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    machine.cpu = line.substr(line.find(':') + 2);
    break;
  }
  utsname system = {};
  if (::uname(&system) == 0) machine.kernel = system.release;
  return machine;
}

nlohmann::json MachineJson(const Machine& machine, std::string_view isa) {
  return {
      {"cpu", machine.cpu}, {"cpus", machine.num_cpus}, {"kernel", machine.kernel}, {"isa", isa}};
}

}  // namespace attndb::bench
