#include "api/index_use.h"

#include <algorithm>

#include "derived/kinds.h"
#include "planner/plan.h"

namespace attndb::internal {
namespace {

constexpr std::string_view kPlanes = "planes";
constexpr std::string_view kStatic = "static=prefill";

// "planes, clustered, ..., static=prefill": all buildable objects, by their names in plans.
std::string KnownNames(const planner::PlanRegistry& plans) {
  std::string names(kPlanes);
  for (const auto& index : plans.indexes()) {
    if (!index->finds_by.empty() && !index->is_custom) names += ", " + index->name;
  }
  return names + ", " + std::string(kStatic);
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// Whether each of "key=value,..." is an argument of the index, and not of another part of a plan.
bool HasOnlyArgumentsOf(const planner::IndexType& index, std::string_view settings) {
  if (settings.find_first_of("();") != settings.npos) return false;
  while (!settings.empty()) {
    const std::string_view one = settings.substr(0, settings.find(','));
    const std::string_view key = Trimmed(one.substr(0, one.find('=')));
    if (std::ranges::count(index.arguments, key, &planner::Argument::key) == 0) return false;
    settings.remove_prefix(std::min(settings.size(), one.size() + 1));
  }
  return true;
}

}  // namespace

Result<std::string> IndexUse(std::string_view text, const planner::PlanRegistry& plans) {
  if (text == kPlanes) return std::string(derived::kKeyPlanes);
  if (text == kStatic) return std::string(derived::kStaticPrefill);
  const std::string what = "index '" + std::string(text) + "'";
  const size_t comma = std::min(text.find(','), text.size());
  const planner::IndexType* const index = plans.FindIndex(text.substr(0, comma));
  if (index == nullptr || index->finds_by.empty()) {
    const char* const why = index == nullptr ? " is not known" : " scores all keys, and has none";
    return Status::InvalidArgument(what + why + "; expected " + KnownNames(plans));
  }
  if (index->is_custom) {
    return Status::InvalidArgument(what +
                                   " is a custom one, which is built in memory where a plan "
                                   "asks for it; expected " +
                                   KnownNames(plans));
  }
  if (comma < text.size() && !HasOnlyArgumentsOf(*index, text.substr(comma + 1))) {
    std::string keys;
    for (const planner::Argument& argument : index->arguments) {
      keys += (keys.empty() ? "" : ", ") + argument.key;
    }
    return Status::InvalidArgument(what + " has what is no setting of " + index->name +
                                   "; expected " + keys);
  }
  const std::string plan_text = "topk(k=1,index=" + std::string(text) + ")";
  const Result<planner::Plan> plan = planner::Plan::Parse(plan_text, plans);
  if (!plan.ok()) {
    return Status(plan.status().code(),
                  what + ", as in " + plan_text + ": " + std::string(plan.status().message()));
  }
  return plan->ForLayer(0).FindsBy();
}

}  // namespace attndb::internal
