// Question: what do calls of the store cost among many contexts that share a prefix?
//
// Usage:  [--contexts N] before the others of bench_util.h; 10,000 unless given. Storing 100,000
//         takes minutes, and some GB.
// List:   of all of them.
// Others: beside as many, against the same call beside 10: CreateSession for a prompt that goes on
//         from one of them, Store at a full quota, which evicts one, and a Compact that has nothing
//         to do. Stores of 10, 1,000 and N contexts take turns, call by call.
// Aims:   List of 10,000 in 100 ms; the others in 1.2 times what they take beside 10, and 2 ms. The
//         share is the aim's time over the call's, so that 1 is enough.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "bench/store/many_contexts.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kFew = 10;
constexpr double kListSeconds = 0.1;  // Limit for 10,000 contexts.
constexpr double kFactor = 1.2;
constexpr double kSlackSeconds = 0.002;

struct Call {
  const char* name;
  double (ManyContexts::*run)();
};
constexpr Call kCalls[] = {{"create_session", &ManyContexts::CreateSession},
                           {"store", &ManyContexts::Store},
                           {"compact", &ManyContexts::Compact}};

double Median(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

// Takes "--contexts N" out of the arguments.
uint64_t TakeContexts(int* argc, char** argv) {
  if (*argc < 3 || std::strcmp(argv[1], "--contexts") != 0) return 10'000;
  const uint64_t num_contexts = std::strtoull(argv[2], nullptr, 10);
  std::copy(argv + 3, argv + *argc, argv + 1);
  *argc -= 2;
  return std::max<uint64_t>(num_contexts, kFew);
}

std::string NameOf(const char* call, const ManyContexts& store) {
  return std::string(call) + "/" + std::to_string(store.num_contexts());
}

int Main(int argc, char** argv) {
  const uint64_t num_contexts = TakeContexts(&argc, argv);
  const Options options = ParseOptions(argc, argv);
  Report report("contexts: calls of the store among many contexts", options);
  std::vector<std::unique_ptr<ManyContexts>> stores;
  for (const uint64_t num : {kFew, uint64_t{1'000}, num_contexts}) {
    const double start = Seconds();
    stores.push_back(std::make_unique<ManyContexts>(num));
    std::printf("%llu contexts stored in %.0f s\n", static_cast<unsigned long long>(num),
                Seconds() - start);
    stores.back()->Compact();
    stores.back()->FillQuota();
  }
  std::map<std::string, std::vector<double>> seconds;
  for (size_t round = 0; round < options.num_rounds; ++round) {
    for (const auto& store : stores) {
      const double list = store->List();
      report.Add(NameOf("list", *store), "ms", list * 1e3);
      const double aim = kListSeconds * static_cast<double>(store->num_contexts()) / 10'000;
      if (store->num_contexts() >= 10'000) report.AddShare(NameOf("list", *store), aim / list);
    }
    for (const Call& call : kCalls) {
      for (const auto& store : stores) {
        const std::string name = NameOf(call.name, *store);
        seconds[name].push_back((store.get()->*call.run)());
        report.Add(name, "ms", seconds[name].back() * 1e3);
      }
    }
  }
  std::map<std::string, double> aims;
  for (const Call& call : kCalls) {
    const double aim = kFactor * Median(seconds[NameOf(call.name, *stores[0])]) + kSlackSeconds;
    for (size_t i = 1; i < stores.size(); ++i) {
      const std::string name = NameOf(call.name, *stores[i]);
      report.AddShare(name, aim / Median(seconds[name]));
      aims[name] = 1.0;
    }
  }
  aims[NameOf("list", *stores.back())] = 1.0;
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
