#include "planner/plan_registry.h"

#include "common/check.h"

namespace attndb::planner {
namespace {

// "beta=...|alpha=..."
std::string KeysText(const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& argument : arguments) {
    if (argument.optional) continue;
    text += (text.empty() ? "" : "|") + argument.key + "=...";
  }
  return text;
}

template <typename T>
const T* Find(const std::vector<std::unique_ptr<const T>>& types, std::string_view name) {
  for (const auto& type : types) {
    if (type->name == name) return type.get();
  }
  return nullptr;
}

}  // namespace

void PlanRegistry::AddQuery(QueryType query) {
  ATTNDB_CHECK(query.arguments.size() <= kMaxArguments);
  ATTNDB_CHECK(FindQuery(query.name) == nullptr && FindPreset(query.name) == nullptr);
  ATTNDB_CHECK(query.index.empty() || FindIndex(query.index) != nullptr);
  queries_.push_back(std::make_unique<const QueryType>(std::move(query)));
}

void PlanRegistry::AddIndex(IndexType index) {
  ATTNDB_CHECK(index.arguments.size() <= kMaxArguments && FindIndex(index.name) == nullptr);
  indexes_.push_back(std::make_unique<const IndexType>(std::move(index)));
}

void PlanRegistry::AddPreset(Preset preset) {
  ATTNDB_CHECK(FindQuery(preset.name) == nullptr && FindPreset(preset.name) == nullptr);
  presets_.push_back(std::move(preset));
}

const QueryType* PlanRegistry::FindQuery(std::string_view name) const {
  return Find(queries_, name);
}

const IndexType* PlanRegistry::FindIndex(std::string_view name) const {
  return Find(indexes_, name);
}

const PlanRegistry::Preset* PlanRegistry::FindPreset(std::string_view name) const {
  for (const Preset& preset : presets_) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

std::string PlanRegistry::KnownQueries() const {
  std::string text;
  for (const auto& query : queries_) {
    text += (text.empty() ? "" : ", ") + query->name;
    if (!query->arguments.empty()) text += "(" + KeysText(query->arguments) + ")";
  }
  for (const Preset& preset : presets_) text += ", " + preset.name;
  return text;
}

std::string PlanRegistry::KnownIndexes() const {
  std::string text;
  for (const auto& index : indexes_) text += (text.empty() ? "" : ", ") + index->name;
  return text;
}

}  // namespace attndb::planner
