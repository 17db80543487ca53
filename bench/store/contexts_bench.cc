// Question: what do calls of the store cost among many contexts that share a prefix?
//
// Usage:  [--contexts N] before the others of bench_util.h; 10,000 unless given. Storing 100,000
//         takes minutes, and some GB. Fewer than 10,000 have no limit to keep.
// List:   of all of them.
// Limits: Drop, the start of a Verify, expiry of a context, Stats, ExplainPrefix and Open, beside
//         as many contexts of one tenant, and beside as many of 100 tenants.
// Others: beside as many, against the same call beside 10: CreateSession for a prompt that goes on
//         from one of them, Store at a full quota, which evicts one, and a Compact that has nothing
//         to do. Stores of 10, 1,000 and N contexts take turns, call by call; of those
//         below N, if N is smaller.
// Aims:   List and those under Limits in 100 ms beside 10,000; the others in 1.2 times what they
//         take beside 10, and 2 ms. The share is the aim's time over the call's, so that 1 is
//         enough.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/bench_util.h"
#include "bench/median.h"
#include "bench/store/many_contexts.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kFew = 10;
constexpr uint64_t kSome = 1'000;
constexpr uint64_t kTenants = 100;
constexpr uint64_t kLimitContexts = 10'000;  // Those that the limit is for.
constexpr double kLimitSeconds = 0.1;        // Beside kLimitContexts.
constexpr double kFactor = 1.2;
constexpr double kSlackSeconds = 0.002;

struct Call {
  const char* name;
  double (ManyContexts::*run)();
};
constexpr Call kCalls[] = {{"create_session", &ManyContexts::CreateSession},
                           {"store", &ManyContexts::Store},
                           {"compact", &ManyContexts::Compact}};

constexpr Call kLimited[] = {{"list", &ManyContexts::List},
                             {"drop", &ManyContexts::Drop},
                             {"verify_start", &ManyContexts::VerifyStart},
                             {"expiry", &ManyContexts::Expiry},
                             {"stats", &ManyContexts::Stats},
                             {"explain_prefix", &ManyContexts::ExplainPrefix},
                             {"open", &ManyContexts::Open}};

std::string NameOf(const char* call, const ManyContexts& store) {
  const std::string tenants =
      store.num_tenants() == 1 ? "" : "x" + std::to_string(store.num_tenants());
  return std::string(call) + "/" + std::to_string(store.num_contexts()) + tenants;
}

// One round of the calls that have a limit.
void RunLimited(ManyContexts* store, Report* report) {
  const double scale =
      static_cast<double>(store->num_contexts()) / static_cast<double>(kLimitContexts);
  for (const Call& call : kLimited) {
    const double seconds = (store->*call.run)();
    const std::string name = NameOf(call.name, *store);
    report->Add(name, "ms", seconds * 1e3);
    if (store->num_contexts() >= kLimitContexts)
      report->AddShare(name, kLimitSeconds * scale / seconds);
  }
}

int Main(int argc, char** argv) {
  const uint64_t num_contexts = TakeNumber("--contexts", 10'000, kFew, &argc, argv);
  const Options options = ParseOptions(argc, argv);
  Report report("contexts: calls of the store among many contexts", options);
  std::vector<std::unique_ptr<ManyContexts>> stores;
  const auto add = [&](uint64_t num, uint64_t num_tenants) {
    const double start = Seconds();
    stores.push_back(std::make_unique<ManyContexts>(num, num_tenants));
    std::printf("%llu contexts of %llu tenants stored in %.0f s\n",
                static_cast<unsigned long long>(num), static_cast<unsigned long long>(num_tenants),
                Seconds() - start);
    stores.back()->Compact();
  };
  for (const uint64_t num : {kFew, kSome}) {
    if (num < num_contexts) add(num, 1);
  }
  add(num_contexts, 1);
  add(num_contexts, std::min(kTenants, num_contexts));
  for (size_t round = 0; round < options.num_rounds; ++round) {
    for (const auto& store : stores) RunLimited(store.get(), &report);
  }
  stores.pop_back();
  for (const auto& store : stores) store->FillQuota();
  std::map<std::string, std::vector<double>> seconds;
  for (size_t round = 0; round < options.num_rounds; ++round) {
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
  for (const Call& call : kLimited) {
    if (num_contexts < kLimitContexts) break;
    const std::string name = NameOf(call.name, *stores.back());
    aims[name] = aims[name + "x" + std::to_string(kTenants)] = 1.0;
  }
  report.Finish(aims);
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
