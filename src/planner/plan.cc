#include "planner/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/check.h"

namespace attndb::planner {
namespace {

// REQUIRES: it takes words.
const std::string& WordOf(const Argument& argument, double value) {
  return argument.words[static_cast<size_t>(value)];
}

std::string ValueText(const Argument& argument, double value) {
  return argument.words.empty() ? NumberText(value) : WordOf(argument, value);
}

std::string GivenText(const std::vector<Argument>& arguments, const ArgumentValues& values) {
  std::string text;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!values.given[i]) continue;
    text += (text.empty() ? "" : ",") + arguments[i].key + "=" +
            ValueText(arguments[i], values.values[i]);
  }
  return text;
}

// Clusters for indexes that have none of their own: 16 keys each, as in RetroInfer.
constexpr std::string_view kEstimatedBy = "wave_16";

std::string ClustersText(const LayerPlan& plan) {
  if (plan.cluster_share == plan.index->estimated_share) return "";  // The default needs no text.
  const std::string share = plan.cluster_share == 1 ? "" : ":" + NumberText(plan.cluster_share);
  return ",remainder=clusters" + share;
}

std::string RemainderText(const LayerPlan& plan) {
  switch (plan.remainder) {
    case Remainder::kDrop:
      return plan.index->estimated_share > 0 ? ",remainder=drop" : "";
    case Remainder::kMean:
      return ",remainder=mean";
    case Remainder::kSample:
      return ",remainder=sample:" + std::to_string(plan.samples);
    case Remainder::kClusters:
      return ClustersText(plan);
  }
  return "";
}

// The search of tokens and the treatment of the rest; defaults are not written.
std::string SearchText(const LayerPlan& plan) {
  std::string text;
  if (!plan.default_index) {
    text += ",index=" + plan.index->name;
    const std::string given = GivenText(plan.index->arguments, plan.index_arguments);
    if (!given.empty()) text += "," + given;
  }
  if (plan.bits != plan.query->default_bits || plan.bits != 0) {
    text += ",bits=" + (plan.bits == 0 ? "exact" : std::to_string(plan.bits));
  }
  text += RemainderText(plan);
  if (plan.Draws() && plan.value_bits != 0)
    text += ",value_bits=" + std::to_string(plan.value_bits);
  if (plan.Bounds()) text += ",exact_fallback=" + NumberText(plan.exact_fallback);
  if (plan.awaits) text += ",await=1";
  return text;
}

// Index of `key` in a list of arguments; the list's size if it is not there.
size_t PlaceOf(const std::vector<Argument>& arguments, std::string_view key) {
  size_t i = 0;
  while (i < arguments.size() && arguments[i].key != key) ++i;
  return i;
}

}  // namespace

std::string NumberText(double value) {
  constexpr double kLongestWhole = 1u << 30;
  if (value == std::floor(value) && std::abs(value) <= kLongestWhole) {
    return std::to_string(static_cast<int64_t>(value));
  }
  char text[40];
  for (int precision = 1; precision <= 17; ++precision) {
    std::snprintf(text, sizeof(text), "%.*g", precision, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

LayerPlan::FoundArgument LayerPlan::Find(std::string_view key) const {
  if (query == nullptr) return {};
  const size_t i = PlaceOf(query->arguments, key);
  if (i < query->arguments.size()) {
    return {&query->arguments[i], arguments.values[i], arguments.given[i], /*of_index=*/false};
  }
  const size_t j = index == nullptr ? 0 : PlaceOf(index->arguments, key);
  if (index == nullptr || j == index->arguments.size()) return {};
  return {&index->arguments[j], index_arguments.values[j], index_arguments.given[j],
          /*of_index=*/true};
}

double LayerPlan::Get(std::string_view key) const {
  const FoundArgument found = Find(key);
  ATTNDB_CHECK(found.argument != nullptr);
  return found.given ? found.value : found.argument->fallback;
}

bool LayerPlan::Given(std::string_view key) const { return Find(key).given; }

std::string_view LayerPlan::Word(std::string_view key) const {
  const FoundArgument found = Find(key);
  if (found.argument == nullptr || (!found.given && !found.of_index)) return "";
  return WordOf(*found.argument, found.value);
}

void LayerPlan::Set(std::string_view key, double value) {
  const FoundArgument found = Find(key);
  ATTNDB_CHECK(found.argument != nullptr);
  ArgumentValues& of = found.of_index ? index_arguments : arguments;
  const size_t i = PlaceOf(found.of_index ? index->arguments : query->arguments, key);
  of.values[i] = value;
  of.given[i] = true;
}

void LayerPlan::SetWord(std::string_view key, std::string_view word) {
  const FoundArgument found = Find(key);
  ATTNDB_CHECK(found.argument != nullptr);
  const std::vector<std::string>& words = found.argument->words;
  const auto place = std::ranges::find(words, word);
  ATTNDB_CHECK(place != words.end());
  Set(key, static_cast<double>(place - words.begin()));
}

void LayerPlan::Clear(std::string_view key) {
  Set(key, 0);
  arguments.given[PlaceOf(query->arguments, key)] = false;
}

bool LayerPlan::Is(std::string_view query_name) const {
  return query == nullptr ? query_name == "full" : query->name == query_name;
}

std::string LayerPlan::FindsBy() const {
  std::string name = index->finds_by;
  char separator = '_';
  for (const std::string& key : index->settings) {
    const Argument& argument = *Find(key).argument;
    const auto value = static_cast<uint32_t>(Get(key));
    if (!argument.words.empty() && value == 0) continue;
    name += separator;
    name += argument.words.empty() ? std::to_string(value) : argument.words[value];
    separator = 'x';
  }
  return name;
}

std::string LayerPlan::EstimatesBy() const {
  return index->estimated_share > 0 ? FindsBy() : std::string(kEstimatedBy);
}

float LayerPlan::Effort() const {
  return index->effort_key.empty() ? 0.0f : static_cast<float>(Get(index->effort_key));
}

TokenRange LayerPlan::MiddleOf(uint64_t num_tokens, uint64_t num_stored) const {
  const uint64_t begin = std::min<uint64_t>(sink, num_tokens);
  const uint64_t end = exact_tail ? std::min(num_tokens, num_stored) : num_tokens;
  return {begin, std::max(begin, end - std::min<uint64_t>(window, end))};
}

uint64_t LayerPlan::NumFixed(uint64_t num_tokens, uint64_t num_stored) const {
  const TokenRange middle = MiddleOf(num_tokens, num_stored);
  return num_tokens - (middle.end - middle.begin);
}

std::string_view LayerPlan::ReasonForFull(const LayerSpec& layer, const CallSize& size) const {
  if (kind == QueryKind::kFull) return "";
  if (layer.sliding_window != 0) return "sliding-window layer: exact over its window";
  if (size.num_rows > size.dense_query_tokens) return "more rows than dense_query_tokens: full";
  if (NumFixed(size.num_tokens, size.num_stored) < size.num_tokens) return "";
  return exact_tail ? "sink and window, with the tail, hold all tokens: full"
                    : "sink and window hold all tokens: full";
}

void LayerPlan::SetError(double value) {
  error = value;
  arguments = {};
  Set("error", value);
}

std::string LayerPlan::ToString() const {
  if (kind == QueryKind::kFull) return "full";
  const std::string given = GivenText(query->arguments, arguments);
  if (kind == QueryKind::kRules) return query->name + "(" + given + (awaits ? ",await=1)" : ")");
  std::string keys;
  if (Chooses()) keys = given + SearchText(*this) + ",";
  return query->name + "(" + keys + "sink=" + std::to_string(sink) +
         ",window=" + std::to_string(window) + (exact_tail ? ",tail=exact" : "") +
         (HasStatic() ? ",static=prefill:" + std::to_string(num_static) : "") + ")";
}

const LayerPlan& Plan::ForLayer(LayerId layer) const {
  for (auto it = overrides_.rbegin(); it != overrides_.rend(); ++it) {
    if (it->first <= layer && layer <= it->last) return it->plan;
  }
  return base_;
}

std::string Plan::ToString() const {
  std::string text = base_.ToString();
  for (const Override& item : overrides_) {
    text += "; layers " + std::to_string(item.first);
    if (item.last != item.first) text += "-" + std::to_string(item.last);
    text += ": " + item.plan.ToString();
  }
  return text;
}

Status Plan::CheckLayers(uint32_t num_layers) const {
  for (const Override& item : overrides_) {
    if (item.last >= num_layers) {
      return Status::InvalidArgument("plan '" + ToString() + "': layer " +
                                     std::to_string(item.last) + " does not exist; the model has " +
                                     std::to_string(num_layers) + " layers, counted from 0");
    }
  }
  return Status::Ok();
}

}  // namespace attndb::planner
