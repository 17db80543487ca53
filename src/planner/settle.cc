#include "planner/settle.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/check.h"

namespace attndb::planner {
namespace {

// Settings of AlayaDB's experiments (Table 5): DIPRS and InfLLM, [initial+last]+retrieved tokens.
// alpha is its beta = 50 at 128 channels (6.1).
constexpr double kDiprAlpha = 0.012;
constexpr uint32_t kSink = 128;
constexpr uint32_t kDiprWindow = 512;
constexpr double kBlocksK = 4096;
constexpr uint32_t kBlocksWindow = 4096;

// The paper gives no l0. This is the least of 256, 512, 1024, ... at which Algorithm 1 finds .99 of
// the mass of the range on each head that was captured (tests/integration/captured_heads_test).
constexpr double kListThreshold = 1024;

// The indexes that find top-k by blocks of tokens: uses the first one that the registry has.
constexpr std::array<std::string_view, 2> kBlockIndexes = {"infllm", "flat"};

// The text of a rule, for a context that is reused as a whole and for one reused in part.
struct RuleText {
  std::string_view whole;
  std::string_view filtered;

  std::string_view Of(const ChainFacts& chain) const {
    return chain.num_hidden > 0 ? filtered : whole;
  }
};
constexpr std::string_view kShort = "Fig. 8: short context: full";
constexpr RuleText kBlocks = {
    "Fig. 8: memory holds all keys and values: top-k over blocks",
    "Fig. 8: partial reuse, memory holds all keys and values: filtered top-k over blocks"};
constexpr RuleText kNoBlocks = {
    "Fig. 8: memory holds all keys and values: top-k, by index=flat: this version has no coarse "
    "index",
    "Fig. 8: partial reuse, memory holds all keys and values: filtered top-k, by index=flat: this "
    "version has no coarse index"};
constexpr RuleText kFlatDipr = {"Fig. 8: long context, layer 0: DIPR, flat",
                                "Fig. 8: partial reuse, layer 0: filtered DIPR, flat"};
constexpr RuleText kGraphDipr = {"Fig. 8: long context: DIPRS by a graph",
                                 "Fig. 8: partial reuse: filtered DIPRS by a graph"};

// A search by that index, or by the default one where the registry does not have it.
LayerPlan Search(const PlanRegistry& registry, std::string_view query, std::string_view index) {
  LayerPlan plan;
  plan.query = registry.FindQuery(query);
  ATTNDB_CHECK(plan.query != nullptr);
  plan.kind = plan.query->kind;
  const IndexType* const found = registry.FindIndex(index);
  plan.index = found == nullptr ? registry.default_index() : found;
  plan.default_index = plan.index == registry.default_index();
  plan.sink = kSink;
  plan.exact_tail = true;
  return plan;
}

SettledPlan SearchBlocks(const ChainFacts& chain, const PlanRegistry& registry) {
  const auto has = [&](std::string_view name) { return registry.FindIndex(name) != nullptr; };
  const auto* const index = std::ranges::find_if(kBlockIndexes, has);
  const bool has_blocks = index == kBlockIndexes.begin();
  LayerPlan plan = Search(registry, "topk", has_blocks ? *index : kBlockIndexes.back());
  plan.Set("k", kBlocksK);
  plan.window = kBlocksWindow;
  return {plan, (has_blocks ? kBlocks : kNoBlocks).Of(chain)};
}

// Algorithm 1 over RoarGraph (7.2), filtered as 7.1 has it.
void WalkAsPublished(LayerPlan* plan) {
  plan->SetWord("walk", "diprs");
  plan->Set("l0", kListThreshold);
  plan->SetWord("expand", "all");
}

SettledPlan SearchRange(const LayerPlace& place, const PlanRegistry& registry) {
  const bool is_first = place.layer == 0;
  LayerPlan plan = Search(registry, "dipr", is_first ? "flat" : "roargraph");
  plan.Set("alpha", kDiprAlpha);
  plan.window = kDiprWindow;
  if (plan.UsesIndex()) WalkAsPublished(&plan);
  return {plan, (is_first ? kFlatDipr : kGraphDipr).Of(*place.chain)};
}

// 6.2 takes the GPU's memory, "set to the available GPU memory by default and can be manually set
// by users". Here attention is computed where K and V lie: in memory of the host.
bool MemoryHolds(const ChainFacts& chain, const LayerPlan& asked) {
  constexpr double kGib = 1u << 30;
  const auto kv_bytes = static_cast<double>(chain.kv_bytes);
  if (asked.Given("memory")) return kGib * asked.Get("memory") >= kv_bytes;
  return chain.memory_bytes > 0 && chain.memory_bytes >= chain.kv_bytes;
}

// [Alaya] Fig. 8.
SettledPlan SettleAlaya(const LayerPlan& asked, const LayerPlace& place,
                        const PlanRegistry& registry) {
  const ChainFacts& chain = *place.chain;
  if (chain.num_tokens <= kShortContextTokens) return {LayerPlan{}, kShort};
  if (MemoryHolds(chain, asked)) return SearchBlocks(chain, registry);
  return SearchRange(place, registry);
}

void SettlePyramid(const LayerPlace& place, LayerPlan* plan) {
  const double share = PyramidShare(place.layer, place.num_layers);
  plan->Clear("budget");
  if (plan->Given("ratio")) {
    plan->Set("ratio", std::min(1.0, share * plan->Get("ratio")));
  } else {
    plan->Set("k", std::max(1.0, std::round(share * plan->Get("k"))));
  }
}

}  // namespace

double PyramidShare(LayerId layer, uint32_t num_layers) {
  constexpr double kLast = 1.0 / 20;
  constexpr double kFirst = 2 - kLast;
  if (num_layers < 2) return 1;
  const auto last_layer = static_cast<double>(num_layers - 1);
  return kFirst - static_cast<double>(layer) / last_layer * (kFirst - kLast);
}

SettledPlan Settle(const LayerPlan& asked, const LayerPlace& place, const PlanRegistry& registry) {
  SettledPlan settled = {asked, ""};
  if (asked.kind == QueryKind::kRules) {
    settled = SettleAlaya(asked, place, registry);
    settled.plan.awaits = asked.awaits && settled.plan.Chooses();
  }
  if (asked.Word("budget") == "pyramid") SettlePyramid(place, &settled.plan);
  return settled;
}

}  // namespace attndb::planner
