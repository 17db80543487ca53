#include "common/rope_frequencies.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

namespace attndb {
namespace {

// A scaling's text: "type:name=value,name=value".
class Scaling {
 public:
  explicit Scaling(std::string_view text) {
    const size_t colon = text.find(':');
    type_ = text.substr(0, colon);
    if (colon == std::string_view::npos) return;
    for (std::string_view rest = text.substr(colon + 1); !rest.empty();) {
      const std::string_view item = rest.substr(0, rest.find(','));
      const size_t equals = item.find('=');
      if (equals != std::string_view::npos) {
        values_.emplace(item.substr(0, equals), item.substr(equals + 1));
      }
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
  }

  std::string_view type() const { return type_; }
  // None if there is no such number, or if it is not finite.
  std::optional<double> Number(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    double value = 0;
    const char* const end = found->second.data() + found->second.size();
    const auto [stop, error] = std::from_chars(found->second.data(), end, value);
    if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
    return value;
  }
  bool Says(std::string_view name, std::string_view value) const {
    const auto found = values_.find(name);
    return found != values_.end() && found->second == value;
  }

 private:
  std::string_view type_;
  std::map<std::string_view, std::string_view> values_;
};

// By how much positions are shrunk: llama.cpp's freq_scale, or one over transformers' factor.
std::optional<double> ShrinkOf(const Scaling& scaling) {
  if (const auto scale = scaling.Number("freq_scale")) return *scale > 0 ? scale : std::nullopt;
  const auto factor = scaling.Number("factor");
  return factor && *factor > 0 ? std::optional(1 / *factor) : std::nullopt;
}

// The pair that turns `turns` times within the trained length, counted from 0, not rounded.
double PairOfTurns(double turns, double trained, double dims, double base) {
  return dims * std::log(trained / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// Fast pairs keep their angles, slow pairs shrink theirs, with a ramp in between.
bool ScaleYarn(const Scaling& scaling, const Rope& rope, std::vector<double>* frequencies) {
  const auto shrink = ShrinkOf(scaling);
  auto trained = scaling.Number("orig");
  if (!trained) trained = scaling.Number("original_max_position_embeddings");
  if (!shrink || !trained || *trained <= 0 || rope.base <= 1) return false;
  const double dims = 2.0 * static_cast<double>(frequencies->size());
  const double fast = scaling.Number("beta_fast").value_or(32);
  const double slow = scaling.Number("beta_slow").value_or(1);
  const double ext = scaling.Number("ext").value_or(1);
  if (fast <= 0 || slow <= 0) return false;
  double low = PairOfTurns(fast, *trained, dims, rope.base);
  double high = PairOfTurns(slow, *trained, dims, rope.base);
  if (!scaling.Says("truncate", "False")) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(0.0, low);
  high = std::min(dims - 1, high);
  for (size_t i = 0; i < frequencies->size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = (1 - std::clamp(ramp, 0.0, 1.0)) * ext;
    (*frequencies)[i] *= *shrink * (1 - kept) + kept;
  }
  return true;
}

// Long waves shrink, short ones don't, and waves in between shrink by a share.
bool ScaleLlama3(const Scaling& scaling, std::vector<double>* frequencies) {
  const auto shrink = ShrinkOf(scaling);
  const auto trained = scaling.Number("original_max_position_embeddings");
  const auto low = scaling.Number("low_freq_factor");
  const auto high = scaling.Number("high_freq_factor");
  if (!shrink || !trained || !low || !high || *trained <= 0 || *high <= *low) return false;
  for (double& frequency : *frequencies) {
    const double waves = *trained * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((waves - *low) / (*high - *low), 0.0, 1.0);
    frequency *= *shrink * (1 - kept) + kept;
  }
  return true;
}

// False: the text does not tell.
bool Scale(const Rope& rope, std::vector<double>* frequencies) {
  if (rope.scaling.empty()) return true;
  if (rope.scaling.find(';') != std::string::npos) return false;  // Factors that are not named.
  const Scaling scaling(rope.scaling);
  if (scaling.type() == "linear") {
    const auto shrink = ShrinkOf(scaling);
    if (!shrink) return false;
    for (double& frequency : *frequencies) frequency *= *shrink;
    return true;
  }
  if (scaling.type() == "yarn") return ScaleYarn(scaling, rope, frequencies);
  if (scaling.type() == "llama3") return ScaleLlama3(scaling, frequencies);
  return false;
}

}  // namespace

Result<std::vector<double>> RopeFrequencies(const Rope& rope, uint32_t head_dim) {
  std::vector<double> frequencies;
  if (rope.layout == RopeLayout::kNone) return frequencies;
  const uint32_t dims = rope.DimsOf(head_dim);
  for (uint32_t pair = 0; pair < dims / 2; ++pair) {
    frequencies.push_back(std::pow(rope.base, -2.0 * pair / dims));
  }
  if (Scale(rope, &frequencies)) return frequencies;
  return Status::Unsupported("RoPE scaling '" + rope.scaling +
                             "': its angles are not known, or depend on the length of the text; "
                             "expected none, linear, yarn or llama3 with their numbers");
}

}  // namespace attndb
