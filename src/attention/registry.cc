#include "attention/registry.h"

#include <cmath>
#include <utility>

#include "attention/call_util.h"
#include "common/check.h"
#include "index/flat/flat_search.h"
#include "index/flat/mass_search.h"

namespace attndb::attention {
namespace {

using index::CriticalSearch;
using index::SearchKind;
using index::SearchSpec;
using planner::LayerPlan;

uint32_t KOf(const LayerPlan& plan) { return static_cast<uint32_t>(plan.Get("k")); }

// alpha is a ratio of attention weights: -ln(alpha) / scale in scores ([Alaya] 6.1).
float BetaOf(const LayerPlan& plan, const LayerSpec& layer) {
  return static_cast<float>(plan.Given("alpha") ? -std::log(plan.Get("alpha")) / double{layer.scale}
                                                : plan.Get("beta"));
}

QuerySearch TopK() {
  return {.make_search = [](const LayerPlan& plan,
                            const LayerSpec&) -> std::unique_ptr<const CriticalSearch> {
            return std::make_unique<index::FlatTopK>(KOf(plan));
          },
          .make_spec =
              [](const LayerPlan& plan, const LayerSpec&) {
                return SearchSpec{.kind = SearchKind::kTopK, .k = KOf(plan)};
              }};
}

QuerySearch Dipr() {
  return {.make_search = [](const LayerPlan& plan,
                            const LayerSpec& layer) -> std::unique_ptr<const CriticalSearch> {
            return std::make_unique<index::FlatDipr>(BetaOf(plan, layer));
          },
          .make_spec =
              [](const LayerPlan& plan, const LayerSpec& layer) {
                return SearchSpec{.kind = SearchKind::kRange, .beta = BetaOf(plan, layer)};
              }};
}

QuerySearch Mass() {
  return {.make_search = [](const LayerPlan& plan,
                            const LayerSpec& layer) -> std::unique_ptr<const CriticalSearch> {
    return std::make_unique<index::MassSearch>(plan.Get("p"), Logit(layer));
  }};
}

}  // namespace

Registry::Registry() {
  AddSearch("topk", TopK());
  AddSearch("dipr", Dipr());
  AddSearch("mass", Mass());
}

void Registry::AddSearch(std::string query, QuerySearch search) {
  ATTNDB_CHECK(searches_.emplace(std::move(query), std::move(search)).second);
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

SearchSpec Registry::MakeSpec(const LayerPlan& plan, const LayerSpec& layer) const {
  ATTNDB_CHECK(plan.Finds());
  SearchSpec spec = SearchOf(plan).make_spec(plan, layer);
  spec.effort = plan.Effort();
  return spec;
}

}  // namespace attndb::attention
