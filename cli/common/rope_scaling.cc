#include "cli/common/rope_scaling.h"

#include <cmath>
#include <cstdio>

#include "cli/common/parse_number.h"

namespace attndb::cli {
namespace {

using llama::RopeScaling;
using llama::RopeScalingKind;

// Six digits, as people write factors.
std::string FactorText(float factor) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(factor));
  return text;
}

// The factor of which `freq_scale` is the reciprocal: the shortest one, where rounding leaves a
// choice.
float FactorOf(float freq_scale) {
  const float factor = 1.0F / freq_scale;
  const std::optional<float> plain = ParseNumber<float>(FactorText(factor));
  return plain && 1.0F / *plain == freq_scale ? *plain : factor;
}

}  // namespace

Result<RopeScaling> ParseRopeScaling(std::string_view text) {
  RopeScaling scaling;
  if (text == "model") return scaling;
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::optional<float> factor =
      colon == std::string_view::npos ? std::nullopt : ParseNumber<float>(text.substr(colon + 1));
  if (!factor || !(*factor >= 1.0F) || (kind != "linear" && kind != "yarn")) {
    return Status::InvalidArgument("RoPE scaling '" + std::string(text) +
                                   "', expected linear:FACTOR or yarn:FACTOR with a factor from 1");
  }
  scaling.kind = kind == "yarn" ? RopeScalingKind::kYarn : RopeScalingKind::kLinear;
  scaling.factor = *factor;
  return scaling;
}

std::string RopeScalingText(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScalingKind::kModel:
      return "model";
    case RopeScalingKind::kLinear:
      return "linear:" + FactorText(scaling.factor);
    case RopeScalingKind::kYarn:
      return "yarn:" + FactorText(scaling.factor);
  }
  return "unknown";
}

std::optional<RopeScaling> RopeScalingOf(std::string_view identity) {
  constexpr std::string_view kLinear = "linear:freq_scale=";
  constexpr std::string_view kYarn = "yarn:freq_scale=";
  RopeScaling scaling;
  if (identity.starts_with(kLinear)) {
    scaling.kind = RopeScalingKind::kLinear;
    identity.remove_prefix(kLinear.size());
  } else if (identity.starts_with(kYarn)) {
    scaling.kind = RopeScalingKind::kYarn;
    identity.remove_prefix(kYarn.size());
  } else {
    return std::nullopt;
  }
  const std::optional<float> freq_scale =
      ParseNumber<float>(identity.substr(0, identity.find_first_of(",;")));
  if (!freq_scale || !(*freq_scale > 0.0F && *freq_scale <= 1.0F)) return std::nullopt;
  scaling.factor = FactorOf(*freq_scale);
  if (!std::isfinite(scaling.factor)) return std::nullopt;
  return scaling;
}

}  // namespace attndb::cli
