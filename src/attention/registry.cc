#include "attention/registry.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "attention/call_util.h"
#include "attention/code_draw_operator.h"
#include "attention/dense_operator.h"
#include "attention/draw_operator.h"
#include "attention/index_operator.h"
#include "attention/scan_operator.h"
#include "attention/select_operator.h"
#include "attention/window_operator.h"
#include "common/check.h"
#include "index/flat/flat_search.h"
#include "index/flat/mass_search.h"

namespace attndb::attention {
namespace {

using index::CriticalSearch;
using index::SearchKind;
using index::SearchSpec;
using planner::CallSize;
using planner::LayerPlan;

uint32_t KOf(const LayerPlan& plan) { return static_cast<uint32_t>(plan.Get("k")); }

uint32_t KOf(const LayerPlan& plan, const CallSize& size) {
  if (!plan.Given("ratio")) return KOf(plan);
  return index::CountOfRatio(plan.Get("ratio"), size.num_tokens,
                             plan.NumFixed(size.num_tokens, size.num_stored) + plan.num_static);
}

// alpha is a ratio of attention weights: -ln(alpha) / scale in scores ([Alaya] 6.1).
float BetaOf(const LayerPlan& plan, const LayerSpec& layer) {
  return static_cast<float>(plan.Given("alpha") ? -std::log(plan.Get("alpha")) / double{layer.scale}
                                                : plan.Get("beta"));
}

QuerySearch TopK() {
  return {.make_search = [](const LayerPlan& plan,
                            const LayerSpec&) -> std::unique_ptr<const CriticalSearch> {
            if (!plan.Given("ratio")) return std::make_unique<index::FlatTopK>(KOf(plan));
            return std::make_unique<index::FlatTopK>(
                index::FlatTopK::OfRatio(plan.Get("ratio"), plan.num_static));
          },
          .make_spec =
              [](const LayerPlan& plan, const LayerSpec& layer, const CallSize& size) {
                return SearchSpec{
                    .kind = SearchKind::kTopK, .k = KOf(plan, size), .logit = Logit(layer)};
              }};
}

QuerySearch Dipr() {
  return {.make_search = [](const LayerPlan& plan,
                            const LayerSpec& layer) -> std::unique_ptr<const CriticalSearch> {
            return std::make_unique<index::FlatDipr>(BetaOf(plan, layer));
          },
          .make_spec =
              [](const LayerPlan& plan, const LayerSpec& layer, const CallSize&) {
                return SearchSpec{.kind = SearchKind::kRange, .beta = BetaOf(plan, layer)};
              }};
}

QuerySearch Mass() {
  return {.make_search = [](const LayerPlan& plan,
                            const LayerSpec& layer) -> std::unique_ptr<const CriticalSearch> {
            return std::make_unique<index::MassSearch>(plan.Get("p"), Logit(layer));
          },
          .make_spec =
              [](const LayerPlan& plan, const LayerSpec& layer, const CallSize&) {
                return SearchSpec{
                    .kind = SearchKind::kMass, .p = plan.Get("p"), .logit = Logit(layer)};
              }};
}

// Whether some run of the head is reached by the plan's index.
bool HasIndex(const LayerCall& call, uint32_t kv_head) {
  const size_t num_runs = call.parts.size();
  if (call.indexes.empty()) return false;
  const auto of_head = call.indexes.subspan(kv_head * num_runs, num_runs);
  return std::ranges::any_of(of_head, [](const auto* index) { return index != nullptr; });
}

// How a graph is walked; other indexes have no such words.
void SetWalk(const LayerPlan& plan, SearchSpec* spec) {
  if (plan.Word("walk") == "diprs") {
    spec->range_walk = index::RangeWalk::kListOrder;
    spec->list_threshold = static_cast<uint32_t>(plan.Get("l0"));
  }
  if (plan.Word("expand") == "all") spec->expand = index::Expand::kAll;
}

// Gives a caller's own index the arguments of the plan.
void SetArguments(const LayerPlan& plan, const LayerSpec& layer, SearchSpec* spec) {
  static_assert(std::tuple_size_v<decltype(SearchSpec::arguments)> == planner::kMaxArguments);
  spec->logit = Logit(layer);
  for (size_t i = 0; i < plan.index->arguments.size(); ++i) {
    spec->arguments[i] = plan.Get(plan.index->arguments[i].key);
  }
}

struct OperatorType {
  bool (*runs)(const LayerCall& call);
  std::unique_ptr<Operator> (*make)();
  bool (*runs_head)(const LayerCall& call, uint32_t kv_head) = nullptr;  // Null: any of the call.
};

template <typename T>
std::unique_ptr<Operator> Make() {
  return std::make_unique<T>();
}

// The first operator that accepts a call, or a head of it, runs it; the last one accepts all.
constexpr OperatorType kOperators[] = {
    {[](const LayerCall& call) {
       return call.plan.kind == planner::QueryKind::kFull || !ReasonForFull(call).empty();
     },
     Make<DenseOperator>},
    {[](const LayerCall& call) { return call.plan.kind == planner::QueryKind::kWindow; },
     Make<WindowOperator>},
    {[](const LayerCall& call) { return call.plan.DrawsByCodes(); }, Make<CodeDrawOperator>,
     HasIndex},
    {[](const LayerCall& call) { return call.plan.Draws(); }, Make<DrawOperator>},
    {[](const LayerCall& call) { return call.found != nullptr && call.plan.Finds(); },
     Make<SelectByIndex>},
    {[](const LayerCall& call) { return call.found != nullptr; }, Make<SelectByScan>},
    {[](const LayerCall& call) { return call.plan.Finds(); }, Make<IndexOperator>},
    {[](const LayerCall&) { return true; }, Make<ScanOperator>},
};
constexpr size_t kDense = 0;

}  // namespace

Registry::Registry() {
  AddSearch("topk", TopK());
  AddSearch("dipr", Dipr());
  AddSearch("mass", Mass());
}

void Registry::AddSearch(std::string query, QuerySearch search) {
  ATTNDB_CHECK(searches_.emplace(std::move(query), std::move(search)).second);
}

void Registry::AddSelection(std::string query) {
  AddSearch(std::move(query),
            {.make_spec = [](const LayerPlan&, const LayerSpec&, const CallSize&) {
              return SearchSpec{.kind = SearchKind::kSelected};
            }});
}

const QuerySearch& Registry::SearchOf(const LayerPlan& plan) const {
  const auto found = searches_.find(plan.query->name);
  ATTNDB_CHECK(found != searches_.end());
  return found->second;
}

std::unique_ptr<const CriticalSearch> Registry::MakeSearch(const LayerPlan& plan,
                                                           const LayerSpec& layer) const {
  if (!plan.Chooses() || plan.Draws() || plan.Finds()) return nullptr;
  return SearchOf(plan).make_search(plan, layer);
}

SearchSpec Registry::MakeSpec(const LayerPlan& plan, const LayerSpec& layer,
                              const CallSize& size) const {
  ATTNDB_CHECK(plan.Finds());
  SearchSpec spec = SearchOf(plan).make_spec(plan, layer, size);
  spec.effort = plan.Effort();
  SetWalk(plan, &spec);
  if (plan.index->is_custom) SetArguments(plan, layer, &spec);
  return spec;
}

std::vector<std::unique_ptr<Operator>> Registry::MakeOperators() const {
  std::vector<std::unique_ptr<Operator>> operators;
  for (const OperatorType& type : kOperators) operators.push_back(type.make());
  return operators;
}

void Registry::Choose(const LayerCall& call, OperatorChoice* choice) const {
  choice->of_plan = 0;
  while (!kOperators[choice->of_plan].runs(call)) ++choice->of_plan;
  choice->heads.clear();
  for (uint32_t head = 0; head < call.spec.num_kv_heads; ++head) {
    const auto runs = [&](const OperatorType& type) {
      return type.runs(call) && (type.runs_head == nullptr || type.runs_head(call, head));
    };
    size_t of_head = choice->of_plan;
    while (!runs(kOperators[of_head])) ++of_head;
    choice->heads.push_back(call.non_finite[head] != 0 ? kDense : of_head);
  }
}

}  // namespace attndb::attention
