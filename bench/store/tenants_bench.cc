// Question: can a tenant tell by the time of its calls what other tenants have stored?
//
// Usage:  [--tries N] before the others of bench_util.h; 10,000 of each kind unless given.
// Method: one tenant stores prompts; another asks for sessions on prompts of the same length: hits,
//         which the first has stored, and misses, which nobody has. Neither is reused. The kinds
//         take turns in an order that is drawn, so that a disturbance hits both alike.
// Figure: the area under the ROC curve of who takes the slower calls for hits: 0.5 if nothing can
//         be told. The control is the same with hits that take 5 % longer, by waiting.
// Aims:   an area from 0.48 to 0.52, and a control beyond. The shares are the aim's distance from
//         0.5 over the area's, and the control's over the aim's, so that 1 is enough.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "attndb/db.h"
#include "bench/checked.h"
#include "bench/kernels/bench_util.h"
#include "bench/store/rank_area.h"

namespace attndb::bench {
namespace {

constexpr uint32_t kHeadDim = 16;
constexpr uint64_t kPromptTokens = 256;
constexpr uint64_t kStored = 200;  // Prompts of each kind: each is asked for again and again.
constexpr double kMostFromHalf = 0.02;
constexpr double kSlower = 0.05;  // The control's share.

// What one tenant has stored, and what another is told by the time of its calls.
class Tenants {
 public:
  Tenants() : folder_("attndb_tenants") {
    LayerSpec layer;
    layer.num_q_heads = 1;
    layer.num_kv_heads = 1;
    layer.head_dim = kHeadDim;
    layer.v_head_dim = kHeadDim;
    spec_ = ModelSpec::Uniform(1, layer, DType::kFloat16, "tenants_bench");
    const DB db = Checked(DB::Open(folder_.path(), {.measure_machine = false}));
    asking_ = std::make_unique<DB>(Checked(db.ForTenant("asking")));
    const DB storing = Checked(db.ForTenant("storing"));
    Store(storing, 0, kStored);
    Store(*asking_, 2 * kStored, 2 * kStored + 20);  // It has some of its own.
    Check(db.WaitForBackground());
  }

  // Seconds of a call for a prompt; hits take `slower` longer than they do.
  double Ask(bool hit, uint64_t number, double slower) {
    const std::vector<TokenId> tokens = PromptOf(hit ? number : kStored + number);
    const double start = Seconds();
    {
      const SessionStart created = Checked(asking_->CreateSession(spec_, tokens));
      Expect(created.session.num_reused() == 0, "another tenant's prefix was reused");
    }
    if (hit && slower > 0) {
      const double end = start + (Seconds() - start) * (1 + slower);
      while (Seconds() < end) {
      }
    }
    return Seconds() - start;
  }

 private:
  static std::vector<TokenId> PromptOf(uint64_t number) {
    std::vector<TokenId> tokens(kPromptTokens);
    std::iota(tokens.begin(), tokens.end(), 0);
    tokens.front() = static_cast<TokenId>(number);
    return tokens;
  }
  void Store(const DB& db, uint64_t begin, uint64_t end) {
    const std::vector<float> rows(kPromptTokens * kHeadDim, 0.5f);
    const auto view =
        TensorView::Contiguous(rows.data(), DType::kFloat32, kPromptTokens, 1, kHeadDim);
    const LayerKv layer = {view, view};
    for (uint64_t number = begin; number < end; ++number) {
      Check(db.Import(spec_, PromptOf(number), {&layer, 1}).status());
    }
  }

  TempFolder folder_;
  ModelSpec spec_;
  std::unique_ptr<DB> asking_;
};

double AreaOf(Tenants* tenants, uint64_t num_tries, double slower, std::mt19937_64* random,
              Report* report) {
  std::vector<uint8_t> kinds(2 * num_tries, 0);
  std::fill(kinds.begin(), kinds.begin() + static_cast<int64_t>(num_tries), 1);
  std::ranges::shuffle(kinds, *random);
  std::vector<double> seconds[2];
  for (const uint8_t kind : kinds) {
    seconds[kind].push_back(tenants->Ask(kind != 0, (*random)() % kStored, slower));
  }
  if (slower == 0) {
    for (const double miss : seconds[0]) report->Add("miss", "us", miss * 1e6);
    for (const double hit : seconds[1]) report->Add("hit", "us", hit * 1e6);
  }
  return RankArea(seconds[1], seconds[0]);
}

int Main(int argc, char** argv) {
  const uint64_t num_tries = TakeNumber("--tries", 10'000, 10, &argc, argv);
  const Options options = ParseOptions(argc, argv);
  Report report("tenants: what the time of a call tells of other tenants", options);
  Tenants tenants;
  std::mt19937_64 random(11);
  (void)AreaOf(&tenants, std::min<uint64_t>(num_tries, 500), -1, &random, &report);  // Warms up.
  const double area = AreaOf(&tenants, num_tries, 0, &random, &report);
  const double control = AreaOf(&tenants, num_tries, kSlower, &random, &report);
  report.Add("area", "1", area);
  report.Add("area_of_control", "1", control);
  report.AddShare("area", kMostFromHalf / std::max(std::abs(area - 0.5), 1e-9));
  report.AddShare("area_of_control", (control - 0.5) / kMostFromHalf);
  report.Finish({{"area", 1.0}, {"area_of_control", 1.0}});
  return 0;
}

}  // namespace
}  // namespace attndb::bench

int main(int argc, char** argv) { return attndb::bench::Main(argc, argv); }
