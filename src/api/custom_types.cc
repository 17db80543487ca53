#include "api/custom_types.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/quote.h"
#include "derived/custom_kind.h"
#include "planner/plan.h"

namespace attndb::internal {
namespace {

constexpr size_t kMaxTypeNameBytes = 32;
constexpr double kMaxWhole = 1u << 30;
// Keys of plans, and names of builds, that a type must not use.
constexpr std::string_view kTakenKeys[] = {"k",    "ratio",     "budget", "beta",           "alpha",
                                           "p",    "sink",      "index",  "window",         "bits",
                                           "tail", "remainder", "await",  "exact_fallback", "error",
                                           "tpot", "rules",     "memory", "value_bits"};
constexpr std::string_view kTakenNames[] = {"planes", "layers"};

bool IsWord(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_word = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= kMaxTypeNameBytes && is_letter(text.front()) &&
         std::ranges::all_of(text, is_word);
}

constexpr std::string_view kExpectedWord =
    " is no word: expected 1 to 32 of [A-Za-z0-9_], the first of them no digit";

Status Wrong(const std::string& what, std::string_view why) {
  return Status::InvalidArgument(what + std::string(why));
}

Status CheckKey(const std::string& type, const CustomKey& key) {
  const std::string what = type + ": key " + Quoted(key.name);
  if (!IsWord(key.name)) return Wrong(what, kExpectedWord);
  if (std::ranges::count(kTakenKeys, key.name) != 0) {
    return Wrong(what, " is one of attndb's: expected another name");
  }
  if (!std::isfinite(key.min) || !std::isfinite(key.max) || key.min > key.max) {
    return Wrong(what, ": expected a finite min <= max, found " + std::to_string(key.min) +
                           " and " + std::to_string(key.max));
  }
  const auto is_whole = [](double x) { return x == std::floor(x); };
  if (key.whole && (key.min < 0 || key.max > kMaxWhole || key.max == 0 || !is_whole(key.min) ||
                    !is_whole(key.max) || !is_whole(key.fallback))) {
    return Wrong(what, ": expected whole numbers, min >= 0 and max from 1 to 2^30");
  }
  if (!(key.fallback >= key.min && key.fallback <= key.max)) {
    return Wrong(what, ": expected a fallback in its range, found " + std::to_string(key.fallback));
  }
  return Status::Ok();
}

Status CheckType(const CustomIndexType& type, const planner::PlanRegistry& plans) {
  const std::string what = "custom index " + Quoted(type.name);
  if (!IsWord(type.name)) return Wrong(what, kExpectedWord);
  const bool is_taken =
      plans.FindQuery(type.name) != nullptr || plans.FindPreset(type.name) != nullptr ||
      plans.FindIndex(type.name) != nullptr || std::ranges::count(kTakenNames, type.name) != 0;
  if (is_taken) return Wrong(what, ": the name is one of attndb's: expected another");
  if (type.index == nullptr) return Wrong(what, ": expected an index, found null");
  if (type.keys.size() > CustomIndexType::kMaxKeys) {
    return Wrong(what, ": expected at most " + std::to_string(CustomIndexType::kMaxKeys) +
                           " keys, found " + std::to_string(type.keys.size()));
  }
  std::set<std::string_view> names;
  for (const CustomKey& key : type.keys) {
    ATTNDB_RETURN_IF_ERROR(CheckKey(what, key));
    if (!names.insert(key.name).second) {
      return Wrong(what, ": key " + Quoted(key.name) + " is given twice");
    }
  }
  return Status::Ok();
}

// The type's keys as arguments of a query: each may be left out, and none excludes another.
std::vector<planner::Argument> ArgumentsOf(const CustomIndexType& type) {
  std::vector<planner::Argument> arguments;
  for (const CustomKey& key : type.keys) {
    arguments.push_back({.key = key.name,
                         .min = key.min,
                         .max = key.max,
                         .whole = key.whole,
                         .error = key.name + " must be a number from " +
                                  planner::NumberText(key.min) + " to " +
                                  planner::NumberText(key.max),
                         .choice = static_cast<uint8_t>(arguments.size()),
                         .optional = true,
                         .fallback = key.fallback});
  }
  return arguments;
}

// The cost of custom code is unknown: assumes that it reads exactly the selected keys.
planner::SearchWork CustomWork(const planner::SearchSize& size) {
  planner::SearchWork work;
  const double indexed = std::min(size.plane_tokens, size.middle_tokens);
  work.exact_keys = size.fixed_tokens + size.middle_tokens - indexed;
  work.reranked_keys = std::min(indexed, size.expected_tokens);
  work.compared_keys = work.reranked_keys;
  return work;
}

}  // namespace

Status CheckCustomTypes(std::span<const CustomIndexType> types,
                        const planner::PlanRegistry& plans) {
  if (types.size() > CustomIndexType::kMaxTypes) {
    return Status::InvalidArgument("custom_indexes: expected at most " +
                                   std::to_string(CustomIndexType::kMaxTypes) + " types, found " +
                                   std::to_string(types.size()));
  }
  std::set<std::string_view> names;
  for (const CustomIndexType& type : types) {
    ATTNDB_RETURN_IF_ERROR(CheckType(type, plans));
    if (!names.insert(type.name).second) {
      return Status::InvalidArgument("custom index " + Quoted(type.name) + " is given twice");
    }
  }
  return Status::Ok();
}

void AddCustomPlans(std::span<const CustomIndexType> types, planner::PlanRegistry* plans) {
  for (const CustomIndexType& type : types) {
    plans->AddIndex({.name = type.name,
                     .bits = {0},
                     .arguments = ArgumentsOf(type),
                     .predict = CustomWork,
                     .finds_by = derived::CustomUse(type.name),
                     .is_custom = true});
    plans->AddQuery({.name = type.name,
                     .kind = planner::QueryKind::kSearch,
                     .arguments = ArgumentsOf(type),
                     .by_index = true,
                     .index = type.name});
  }
}

void AddCustomSearches(std::span<const CustomIndexType> types, attention::Registry* operators) {
  for (const CustomIndexType& type : types) operators->AddSelection(type.name);
}

void AddCustomKinds(std::span<const CustomIndexType> types, derived::Kinds* kinds) {
  for (const CustomIndexType& type : types) kinds->Add(derived::MakeCustomKind(type));
}

}  // namespace attndb::internal
