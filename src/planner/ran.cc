#include "planner/ran.h"

#include <algorithm>
#include <numeric>

#include "attndb/units.h"

namespace attndb::planner {
namespace {

// Weights are sums of products of whole numbers; a smaller share is rounding.
constexpr double kLeastShare = 1e-9;

constexpr std::string_view kFullSuffix = ": full";

std::string WantedText(Wanted wanted, const LayerPlan& plan) {
  switch (wanted) {
    case Wanted::kQuery:
      return plan.query == nullptr ? "full" : plan.query->name;
    case Wanted::kIndex:
      return "index=" + (plan.index == nullptr ? "flat" : plan.index->name);
    case Wanted::kKeyPlanes:
      return "bits=" + std::to_string(plan.bits);
    case Wanted::kValuePlanes:
      return "value_bits=" + std::to_string(plan.value_bits);
    case Wanted::kMeans:
      return "remainder=mean";
    case Wanted::kClusters:
      return "remainder=clusters";
    case Wanted::kStatic:
      return "static=prefill:" + std::to_string(plan.num_static);
  }
  return "";
}

std::string RanText(Wanted wanted, Cause cause) {
  switch (wanted) {
    case Wanted::kQuery:
      return "full";
    case Wanted::kIndex:
      return cause == Cause::kFullCheaper ? "full" : "index=flat";
    case Wanted::kKeyPlanes:
      return "bits=exact";
    case Wanted::kValuePlanes:
      return "value_bits=exact";
    case Wanted::kMeans:
      return "every value";
    case Wanted::kClusters:
      return "remainder=drop";
    case Wanted::kStatic:
      return "static=none";
  }
  return "";
}

std::string WithoutFull(std::string_view rule) {
  if (rule.ends_with(kFullSuffix)) rule.remove_suffix(kFullSuffix.size());
  return std::string(rule);
}

}  // namespace

double RanTally::Sum(Wanted wanted) const {
  const auto& causes = weights_[static_cast<size_t>(wanted)];
  return std::accumulate(causes.begin(), causes.end(), 0.0);
}

bool RanTally::NeverRan(Wanted wanted) const {
  const double sum = Sum(wanted);
  return sum > 0 && weight(wanted, Cause::kNone) <= kLeastShare * sum;
}

bool RanTally::IsAll(Wanted wanted, Cause cause) const {
  const double sum = Sum(wanted);
  return sum > 0 && weight(wanted, cause) >= (1 - kLeastShare) * sum;
}

std::string RanTally::Because(Wanted wanted, Cause cause) const {
  const uint64_t least = least_tokens_[static_cast<size_t>(wanted)];
  switch (cause) {
    case Cause::kNone:
      return "";
    case Cause::kTooFewTokens:
      return least == 0 ? "too few tokens"
                        : "too few tokens: one segment needs " + FormatCount(least);
    case Cause::kNotStored:
      return "not stored";
    case Cause::kNotBuilt:
      return "not built";
    case Cause::kNothing:
      return "nothing to build it from";
    case Cause::kMoved:
      return "the tokens moved when others were dropped";
    case Cause::kNoMemory:
      return "no memory";
    case Cause::kNonFinite:
      return "NaN or Inf in K or V";
    case Cause::kFullCheaper:
      return "reading everything is cheaper";
    case Cause::kScanCheaper:
      return "a scan is cheaper";
    case Cause::kLessWork:
      return "scoring every key is less work";
    case Cause::kRule:
      return WithoutFull(rule_);
  }
  return "";
}

RanTally::Entry RanTally::EntryOf(Wanted wanted, Cause cause) const {
  return {RanText(wanted, cause), WantedText(wanted, plan_), Because(wanted, cause),
          weight(wanted, cause) / Sum(wanted)};
}

std::vector<RanTally::Entry> RanTally::Entries() const {
  std::vector<Entry> entries;
  for (size_t i = 0; i < kNumWanted; ++i) {
    const auto wanted = static_cast<Wanted>(i);
    const auto first = static_cast<std::ptrdiff_t>(entries.size());
    for (size_t j = 1; j < kNumCauses; ++j) {
      const auto cause = static_cast<Cause>(j);
      if (weight(wanted, cause) <= kLeastShare * Sum(wanted)) continue;
      entries.push_back(EntryOf(wanted, cause));
    }
    std::stable_sort(entries.begin() + first, entries.end(),
                     [](const Entry& a, const Entry& b) { return a.share > b.share; });
  }
  return entries;
}

LayerPlan RanTally::Ran(const LayerPlan& plan, const IndexType* flat) const {
  if (NeverRan(Wanted::kQuery) || IsAll(Wanted::kIndex, Cause::kFullCheaper)) return LayerPlan{};
  LayerPlan ran = plan;
  // A query that one index alone answers has no text for another.
  const bool has_choice = plan.query != nullptr && plan.query->index.empty();
  if (plan.UsesIndex() && has_choice && NeverRan(Wanted::kIndex)) {
    ran.index = flat;
    ran.index_arguments = {};
    ran.default_index = true;
    if (ran.remainder == Remainder::kClusters) ran.remainder = Remainder::kDrop;
  }
  if (NeverRan(Wanted::kKeyPlanes)) ran.bits = 0;
  if (NeverRan(Wanted::kValuePlanes)) ran.value_bits = 0;
  if (NeverRan(Wanted::kClusters)) ran.remainder = Remainder::kDrop;
  if (NeverRan(Wanted::kStatic)) ran.num_static = 0;
  return ran;
}

}  // namespace attndb::planner
