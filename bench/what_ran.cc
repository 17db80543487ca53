#include "bench/what_ran.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace attndb::bench {
namespace {

constexpr double kAll = 1 - 1e-6;

bool HasWindow(const LayerExplain& layer) { return layer.reason.starts_with("sliding-window"); }

bool IsMissing(const Substitute& substitute) {
  const std::string_view because = substitute.because;
  return because.starts_with("too few tokens") || because == "not built" || because == "no memory";
}

// By what was wanted: the share of the substitutes for which `counts` holds, of the layers that
// want it, and one of these substitutes.
template <typename Counts>
std::map<std::string, std::pair<double, Substitute>> SharesOf(const Explain& explain,
                                                              const Counts& counts) {
  std::map<std::string, std::pair<double, Substitute>> shares;
  for (const LayerExplain& layer : explain.layers) {
    if (HasWindow(layer)) continue;
    for (const Substitute& each : layer.substitutes) {
      if (!counts(each)) continue;
      auto& [share, first] = shares.try_emplace(each.wanted, 0.0, each).first->second;
      share += each.share;
    }
  }
  for (auto& entry : shares) {
    const std::string& wanted = entry.first;
    const auto wants = [&wanted](const LayerExplain& layer) {
      const auto is = [&wanted](const Substitute& each) { return each.wanted == wanted; };
      return !HasWindow(layer) && (std::ranges::any_of(layer.substitutes, is) ||
                                   layer.ran.find(wanted) != std::string::npos);
    };
    entry.second.first /= static_cast<double>(std::ranges::count_if(explain.layers, wants));
  }
  return shares;
}

}  // namespace

std::string RanText(const Explain& explain) {
  if (explain.layers.empty()) return "";
  const std::string& first = explain.layers.front().ran;
  std::string text = first;
  for (const LayerExplain& layer : explain.layers) {
    if (layer.ran != first) text += "; layers " + std::to_string(layer.layer) + ": " + layer.ran;
  }
  return text;
}

std::string MissingText(const Explain& explain) {
  for (const auto& [wanted, of] : SharesOf(explain, IsMissing)) {
    const auto& [share, substitute] = of;
    if (share >= kAll) return substitute.ran + " instead of " + wanted + ": " + substitute.because;
  }
  return "";
}

bool IsReplaced(const Explain& explain) {
  const auto shares = SharesOf(explain, [](const Substitute&) { return true; });
  return std::ranges::any_of(shares, [](const auto& each) { return each.second.first >= kAll; });
}

}  // namespace attndb::bench
