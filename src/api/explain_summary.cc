// Explain in a few lines.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "attndb/stats.h"
#include "attndb/units.h"
#include "common/text_table.h"

namespace attndb {
namespace {

using internal::Number;

constexpr size_t kMaxColumns = 100;
constexpr size_t kLabelColumns = 10;

std::string Line(std::string label, std::string text) {
  label.resize(kLabelColumns, ' ');
  if (text.size() > kMaxColumns - kLabelColumns) {
    text.resize(kMaxColumns - kLabelColumns - 3);
    text += "...";
  }
  return label + text + "\n";
}

// Whether a head reads every key and value.
bool ReadsAll(const HeadExplain& head) { return head.ran.starts_with("full"); }

uint64_t Sum(const std::vector<LayerExplain>& layers, uint64_t LayerExplain::*bytes) {
  return std::accumulate(
      layers.begin(), layers.end(), uint64_t{0},
      [bytes](uint64_t sum, const LayerExplain& layer) { return sum + layer.*bytes; });
}

std::string ReadsText(const Explain& explain, uint64_t num_bytes) {
  if (explain.kv_bytes == 0) return "nothing";
  if (num_bytes > explain.kv_bytes) {
    return "all " + FormatBytes(explain.kv_bytes) +
           " a token, some rows for several q heads: " + FormatBytes(num_bytes) + " in all";
  }
  const double share = static_cast<double>(num_bytes) / static_cast<double>(explain.kv_bytes);
  return FormatBytes(num_bytes) + " of " + FormatBytes(explain.kv_bytes) + " a token (" +
         Number(100 * share, 0) + " %)";
}

// How many layers search for the keys that matter, and how many read all.
std::string SearchText(const std::vector<LayerExplain>& layers) {
  uint64_t num_searching = 0;
  uint64_t num_heads = 0;
  uint64_t num_searching_heads = 0;
  for (const LayerExplain& layer : layers) {
    const auto num_full = static_cast<uint64_t>(std::ranges::count_if(layer.heads, ReadsAll));
    num_heads += layer.heads.size();
    num_searching_heads += layer.heads.size() - num_full;
    if (num_full < layer.heads.size()) ++num_searching;
  }
  if (num_searching == 0) return "all " + std::to_string(layers.size()) + " read everything";
  const uint64_t num_full = layers.size() - num_searching;
  return std::to_string(num_searching) + (num_searching == 1 ? " searches" : " search") + " (" +
         std::to_string(num_searching_heads) + " of " + Counted(num_heads, "kv head") + "), " +
         std::to_string(num_full) + (num_full == 1 ? " reads everything" : " read everything");
}

std::string DearestText(const std::vector<LayerExplain>& layers) {
  constexpr size_t kMost = 3;
  std::vector<const LayerExplain*> dearest;
  for (const LayerExplain& layer : layers) dearest.push_back(&layer);
  std::ranges::stable_sort(dearest, std::greater(), &LayerExplain::predicted_us);
  std::string text;
  for (size_t i = 0; i < std::min(kMost, dearest.size()); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dearest[i]->layer);
  }
  return text;
}

// The error that an `auto` plan promises; empty: none.
std::string ErrorText(const Explain& explain) {
  constexpr std::string_view kError = "error=";
  if (explain.plan == "full") return "exact";
  if (explain.tpot_error > 0) {
    return "expected error <= " + Number(100 * explain.tpot_error, 1) + " %" +
           (explain.unreachable ? ": UNREACHABLE, even this takes longer" : "");
  }
  const size_t at = explain.plan.find(kError);
  if (!explain.plan.starts_with("auto") || at == std::string::npos) return "";
  const double error = std::strtod(explain.plan.c_str() + at + kError.size(), nullptr);
  return "expected error <= " + Number(100 * error, error < 0.01 ? 2 : 0) + " %";
}

// The two largest substitutes. Those with a tiny share are left to the tables.
std::string RanLines(const Explain& explain) {
  constexpr size_t kMost = 2;
  constexpr double kLeastShare = 5e-3;
  std::string text;
  size_t num_lines = 0;
  for (const Substitute& each : explain.Substitutes()) {
    if (each.share < kLeastShare || num_lines == kMost) break;
    text += Line(num_lines++ == 0 ? "ran" : "", each.ToText());
  }
  return text;
}

std::string MeasuredText(const Explain& explain) {
  double us = 0;
  for (const LayerExplain& layer : explain.layers) {
    us += layer.append_us + layer.score_us + layer.select_us + layer.attend_us;
  }
  return Number(us * 1e-3, 2) + " ms of one thread in the last call, which read " +
         FormatBytes(Sum(explain.layers, &LayerExplain::bytes_touched));
}

}  // namespace

std::vector<Substitute> Explain::Substitutes() const {
  std::vector<Substitute> merged;
  for (const LayerExplain& layer : layers) {
    for (const Substitute& each : layer.substitutes) {
      const auto same = std::ranges::find_if(merged, [&each](const Substitute& other) {
        return other.ran == each.ran && other.wanted == each.wanted &&
               other.because == each.because;
      });
      const double share = each.share / static_cast<double>(layers.size());
      if (same == merged.end()) {
        merged.push_back({each.ran, each.wanted, each.because, share});
      } else {
        same->share += share;
      }
    }
  }
  std::ranges::stable_sort(merged, std::greater(), &Substitute::share);
  return merged;
}

std::string Explain::Summary() const {
  std::string reused = FormatCount(num_tokens) + ", " + FormatCount(num_reused) +
                       " of them reused, in " + Counted(num_segments, "segment");
  if (num_dropped > 0) reused += "; dropped: " + FormatCount(num_dropped);
  if (!contexts.empty()) reused += "; of " + Counted(contexts.size(), "context");
  const std::string error = ErrorText(*this);
  std::string text = Line("plan", plan + (error.empty() ? "" : ": " + error));
  text += Line("tokens", reused);
  text += Line("reads", ReadsText(*this, Sum(layers, &LayerExplain::predicted_bytes)));
  text += Line("layers", SearchText(layers));
  text += RanLines(*this);
  text += Line("predicted", Number(predicted_us * 1e-3, 2) +
                                " ms of attention a token; dearest layers " + DearestText(layers));
  const bool has_run = !layers.empty() && layers.front().num_queries > 0;
  if (has_run) text += Line("measured", MeasuredText(*this));
  return text;
}

}  // namespace attndb
