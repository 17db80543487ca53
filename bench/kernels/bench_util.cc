#include "bench/kernels/bench_util.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "bench/sample_stats.h"
#include "kernels/bandwidth.h"
#include "kernels/convert.h"
#include "kernels/isa.h"

namespace attndb::bench {
Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const char* const value = i + 1 < argc ? argv[++i] : nullptr;
    if (value != nullptr && name == "--json") {
      options.json_path = value;
    } else if (value != nullptr && name == "--commit") {
      options.commit = value;
    } else if (value != nullptr && name == "--rounds") {
      options.num_rounds = std::max<size_t>(1, std::strtoul(value, nullptr, 10));
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE] [--commit HASH] [--rounds N]\n", argv[0]);
      std::exit(2);
    }
  }
  return options;
}

uint64_t TakeNumber(const char* name, uint64_t fallback, uint64_t least, int* argc, char** argv) {
  if (*argc < 3 || std::string_view(argv[1]) != name) return fallback;
  const uint64_t number = std::strtoull(argv[2], nullptr, 10);
  std::copy(argv + 3, argv + *argc, argv + 1);
  *argc -= 2;
  return std::max(number, least);
}

double Seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Gbps(size_t num_bytes, double start) {
  return static_cast<double>(num_bytes) / (ThreadSeconds() - start) * 1e-9;
}

double ReadGbps(const char* data, size_t num_bytes) {
  const double start = ThreadSeconds();
  sink = kernels::XorWords(data, num_bytes);
  return Gbps(num_bytes, start);
}

Buffer::Buffer(size_t num_bytes) : size_(num_bytes) {
  void* const memory =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  madvise(memory, size_, MADV_HUGEPAGE);
  data_ = static_cast<char*>(memory);
}

Buffer::~Buffer() { munmap(data_, size_); }

void FillNormal(Buffer* buffer, DType dtype, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> pattern(1 << 16);
  for (float& x : pattern) x = normal(random);
  const size_t num_elements = buffer->size() / DTypeBytes(dtype);
  for (size_t i = 0; i < num_elements; i += pattern.size()) {
    const size_t n = std::min(pattern.size(), num_elements - i);
    kernels::ConvertRows(DType::kFloat32, pattern.data(), n, dtype,
                         buffer->data() + i * DTypeBytes(dtype), n, 1, n, n);
  }
}

Report::Report(std::string question, const Options& options)
    : question_(std::move(question)), options_(options) {
  std::printf("%s\n%s, isa %s\n", question_.c_str(), DescribeMachine().cpu.c_str(),
              std::string(kernels::IsaName(kernels::CurrentIsa().used)).c_str());
}

void Report::Add(const std::string& name, const std::string& unit, double value) {
  if (!series_.contains(name)) order_.push_back(name);
  series_[name].unit = unit;
  series_[name].values.push_back(value);
}

void Report::AddShare(const std::string& name, double share) {
  series_[name].shares.push_back(share);
}

void Report::Finish(const std::map<std::string, double>& least_shares) {
  nlohmann::json results = nlohmann::json::array();
  std::printf("%-34s %10s %8s %-9s %7s %7s %7s\n", "", "median", "mad", "unit", "share", "best",
              "aim");
  for (const std::string& name : order_) {
    const Series& series = series_.at(name);
    const SampleStats value = Summarize(series.values);
    const SampleStats share = Summarize(series.shares);
    nlohmann::json row = {{"name", name},
                          {"unit", series.unit},
                          {"median", value.median},
                          {"mad", value.mad},
                          {"best", *std::max_element(series.values.begin(), series.values.end())}};
    std::printf("%-34s %10.2f %8.2f %-9s", name.c_str(), value.median, value.mad,
                series.unit.c_str());
    if (!series.shares.empty()) {
      row["share"] = share.median;
      const double best = *std::max_element(series.shares.begin(), series.shares.end());
      std::printf(" %7.3f %7.3f", share.median, best);
    }
    if (const auto least = least_shares.find(name); least != least_shares.end()) {
      row["aim"] = least->second;
      std::printf(" %7.2f%s", least->second, share.median < least->second ? "  missed" : "");
    }
    std::printf("\n");
    results.push_back(row);
  }
  if (options_.json_path.empty()) return;
  const nlohmann::json all = {
      {"question", question_},
      {"machine", MachineJson(DescribeMachine(), kernels::IsaName(kernels::CurrentIsa().used))},
      {"commit", options_.commit},
      {"rounds", options_.num_rounds},
      {"results", results}};
  std::ofstream(options_.json_path) << all.dump(2) << "\n";
}

}  // namespace attndb::bench
