// Question: what does a Store cost, in bytes and time, and what does it cost those who decode?
//
// Usage:   [--quick] before the others of bench_util.h: short contexts.
// Store:   of 100 tokens onto stored contexts of 1,024, 16,384 and 131,072 tokens that the session
//          reuses, and onto nothing, in turn. Bytes: of the segment that it seals, and all that the
//          process hands to the kernel meanwhile, the catalog's included. The background builds
//          nothing, so that these are the Store's.
// Step:    one token in all layers, onto 8,192 stored tokens and a tail of 4,096, by one thread:
//          alone, and beside a StoreAsync of another session's tail of 4,096 and of its own, in
//          turn. Steps that begin and end while the Store goes on; medians over those of a round.
//          `cpu`: the time that the step's thread ran, which other work on the machine's cores does
//          not lengthen. `after`: the first step after its own Store, in which the session moves to
//          the stored context.
// Aims:    a Store onto any length in 1.2 times what it takes onto 1,024; a step beside a Store in
//          1.2 times what it takes alone. Shares are the other way round: 1 / 1.2 is enough.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "attndb/context_name.h"
#include "bench/kernels/bench_util.h"
#include "bench/median.h"
#include "bench/store/conversations.h"

namespace attndb::bench {
namespace {

constexpr double kLeastShare = 1 / 1.2;
constexpr uint64_t kNewTokens = 100;
constexpr uint64_t kTailTokens = 4096;
constexpr int kWarmSteps = 3;
constexpr int kStepsAlone = 12;
const char* const kPlans[] = {"full", "topk(k=100,bits=4)"};

// Takes "--quick" out of the arguments.
bool TakeQuick(int* argc, char** argv) {
  if (*argc < 2 || std::strcmp(argv[1], "--quick") != 0) return false;
  std::copy(argv + 2, argv + *argc, argv + 1);
  --*argc;
  return true;
}

// Bytes of this process's write calls, of all threads.
uint64_t BytesHandedToKernel() {
  std::ifstream file("/proc/self/io");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "wchar:") return value;
  }
  return 0;
}

struct StoreCost {
  double seconds = 0;
  uint64_t segment_bytes = 0;
  uint64_t all_bytes = 0;
};

StoreCost StoreOnto(const Tokens& context, Conversations* conversations) {
  const DB& db = conversations->db();
  Conversation conversation = conversations->Continue(context, kNewTokens, "full");
  const DBStats before = Checked(db.Stats());
  const uint64_t bytes_before = BytesHandedToKernel();
  const double start = Seconds();
  Check(db.Store(conversation.session, conversation.tokens).status());
  StoreCost cost{.seconds = Seconds() - start};
  cost.all_bytes = BytesHandedToKernel() - bytes_before;
  const DBStats after = Checked(db.Stats());
  cost.segment_bytes = after.bytes_written - before.bytes_written;
  Expect(after.bytes_merged == before.bytes_merged, "Store: merged");
  return cost;
}

void MeasureStores(const std::vector<uint64_t>& lengths, size_t num_rounds, Report* report) {
  DBOptions options;
  options.background_builds = false;
  Conversations conversations(options);
  std::vector<Tokens> contexts(1);  // The first one is empty.
  for (const uint64_t length : lengths) contexts.push_back(conversations.StoreContext(length));
  for (const Tokens& context : contexts) StoreOnto(context, &conversations);  // Warm-up.
  for (size_t round = 0; round < num_rounds; ++round) {
    std::map<uint64_t, StoreCost> costs;
    for (const Tokens& context : contexts) {
      costs[context.size()] = StoreOnto(context, &conversations);
    }
    for (const auto& [length, cost] : costs) {
      const std::string onto = "/" + std::to_string(length);
      report->Add("store" + onto, "ms", cost.seconds * 1e3);
      report->AddShare("store" + onto, costs[lengths[0]].seconds / cost.seconds);
      report->Add("segment" + onto, "bytes", static_cast<double>(cost.segment_bytes));
      report->Add("written" + onto, "bytes", static_cast<double>(cost.all_bytes));
    }
  }
}

struct StepCosts {
  std::vector<double> wall;
  std::vector<double> cpu;
};

void TimeStep(Conversation* conversation, Conversations* conversations, StepCosts* costs) {
  const double start = Seconds();
  const double cpu_start = ThreadSeconds();
  conversations->Step(conversation);
  costs->wall.push_back(Seconds() - start);
  costs->cpu.push_back(ThreadSeconds() - cpu_start);
}

StepCosts StepsAlone(Conversation* conversation, Conversations* conversations) {
  StepCosts costs;
  Check(conversations->db().WaitForBackground());
  for (int i = 0; i < kStepsAlone; ++i) TimeStep(conversation, conversations, &costs);
  return costs;
}

StepCosts StepsBeside(const PendingStore& store, Conversation* conversation,
                      Conversations* conversations) {
  StepCosts costs;
  do {
    TimeStep(conversation, conversations, &costs);
  } while (!store.done());
  if (costs.wall.size() > 1) {  // The last step outlasted the Store.
    costs.wall.pop_back();
    costs.cpu.pop_back();
  }
  return costs;
}

void AddSteps(const std::string& name, const StepCosts& costs, const StepCosts& alone,
              Report* report) {
  report->Add("step/" + name, "ms", Median(costs.wall) * 1e3);
  report->AddShare("step/" + name, Median(alone.wall) / Median(costs.wall));
  report->Add("cpu/" + name, "ms", Median(costs.cpu) * 1e3);
  report->AddShare("cpu/" + name, Median(alone.cpu) / Median(costs.cpu));
}

// Steps of `mine` while the tail of `stored`, which may be `mine`, is stored behind it. Drops what
// was stored: sessions keep it.
void StepBesideStore(const std::string& name, Conversation* mine, Conversation* stored,
                     Conversations* conversations, Report* report) {
  const DB& db = conversations->db();
  const StepCosts alone = StepsAlone(mine, conversations);
  const double start = Seconds();
  const PendingStore store = Checked(db.StoreAsync(stored->session, stored->tokens));
  const StepCosts beside = StepsBeside(store, mine, conversations);
  const ContextId id = Checked(store.Wait());
  report->Add("async/" + name, "ms", (Seconds() - start) * 1e3);
  report->Add("steps/" + name, "", static_cast<double>(beside.wall.size()));
  AddSteps(name + "/alone", alone, alone, report);
  AddSteps(name + "/beside", beside, alone, report);
  if (mine == stored) {
    StepCosts after;
    TimeStep(mine, conversations, &after);
    report->Add("step/" + name + "/after", "ms", after.wall.front() * 1e3);
  }
  Check(db.WaitForBackground());
  Check(db.Drop(IdName(id)));
}

void MeasureSteps(uint64_t num_tokens, size_t num_rounds, Report* report) {
  Conversations conversations({});
  const Tokens context = conversations.StoreContext(num_tokens);
  for (size_t round = 0; round < num_rounds; ++round) {
    for (const std::string plan : kPlans) {
      Conversation mine = conversations.Continue(context, kTailTokens, plan);
      Conversation other = conversations.Continue(context, kTailTokens, plan);
      for (int i = 0; i < kWarmSteps; ++i) conversations.Step(&mine);
      StepBesideStore(plan + "/other", &mine, &other, &conversations, report);
      StepBesideStore(plan + "/own", &mine, &mine, &conversations, report);
    }
  }
}

std::map<std::string, double> Aims(const std::vector<uint64_t>& lengths) {
  std::map<std::string, double> aims;
  for (const uint64_t length : lengths) aims["store/" + std::to_string(length)] = kLeastShare;
  for (const std::string plan : kPlans) {
    for (const char* const whose : {"/other", "/own"}) {
      aims["step/" + plan + whose + "/beside"] = kLeastShare;
      aims["cpu/" + plan + whose + "/beside"] = kLeastShare;
    }
  }
  return aims;
}

int Main(int argc, char** argv) {
  const bool quick = TakeQuick(&argc, argv);
  const Options options = ParseOptions(argc, argv);
  const std::vector<uint64_t> lengths = {1024, uint64_t{quick ? 4096u : 16'384u},
                                         uint64_t{quick ? 16'384u : 131'072u}};
  Report report("stores: bytes and time of a Store, and steps beside it", options);
  MeasureStores(lengths, options.num_rounds, &report);
  MeasureSteps(quick ? 1024 : 8192, options.num_rounds, &report);
  report.Finish(Aims(lengths));
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
