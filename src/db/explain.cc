// Text and JSON of what stats.h describes.
#include <algorithm>
#include <cstdio>

#include "attndb/stats.h"
#include "db/json_text.h"

namespace attndb {
namespace {

using internal::DumpJson;
using internal::Json;

std::string Number(double value, int decimals) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string Bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return Number(value, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string Count(double value) { return value < 0 ? "?" : Number(value, value < 100 ? 1 : 0); }

// Whether two layers can share a line of the table: same plan, nearly the same figures.
bool Alike(const LayerExplain& a, const LayerExplain& b) {
  const auto close = [](double x, double y) {
    return std::abs(x - y) <= 0.05 * std::max({std::abs(x), std::abs(y), 1.0});
  };
  return a.plan == b.plan && a.reason == b.reason && a.num_tokens == b.num_tokens &&
         close(a.selected_mean, b.selected_mean) &&
         close(a.predicted_selected, b.predicted_selected) &&
         a.predicted_bytes == b.predicted_bytes;
}

using Row = std::vector<std::string>;

// Columns as wide as they need; all but the first two aligned to the right.
std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < 2 ? row[i] + pad : pad + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Row LayerRow(std::span<const LayerExplain> layers) {
  const LayerExplain& first = layers.front();
  std::string range = std::to_string(first.layer);
  if (layers.size() > 1) range += "-" + std::to_string(layers.back().layer);
  uint64_t predicted = 0;
  uint64_t touched = 0;
  double times[4] = {};
  for (const LayerExplain& layer : layers) {
    predicted += layer.predicted_bytes;
    touched += layer.bytes_touched;
    times[0] += layer.append_us;
    times[1] += layer.score_us;
    times[2] += layer.select_us;
    times[3] += layer.attend_us;
  }
  Row row = {range, first.plan + (first.reason.empty() ? "" : " [" + first.reason + "]"),
             std::to_string(first.num_middle), Count(first.predicted_selected), Bytes(predicted)};
  if (first.num_queries == 0) {
    row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-"});
    return row;
  }
  row.push_back(Count(first.candidates_mean));
  row.push_back(Count(first.selected_mean));
  row.push_back(Bytes(touched));
  for (const double time : times) row.push_back(Number(time, 1));
  return row;
}

}  // namespace

std::string Explain::ToText() const {
  std::string text = "plan      " + plan + "\ntokens    " + std::to_string(num_tokens) + " (" +
                     std::to_string(num_reused) + " reused, in " + std::to_string(num_segments) +
                     " segments)\nmemory    " + Bytes(memory_bytes) + "\n\n";
  std::vector<Row> rows = {{"layers", "plan", "middle", "selected?", "bytes?", "candidates",
                            "selected", "bytes", "append us", "score us", "select us",
                            "attend us"}};
  for (size_t begin = 0; begin < layers.size();) {
    size_t end = begin + 1;
    while (end < layers.size() && Alike(layers[begin], layers[end])) ++end;
    rows.push_back(LayerRow(std::span(layers).subspan(begin, end - begin)));
    begin = end;
  }
  text += Table(rows);
  text +=
      "\nselected: critical tokens per q head and row; candidates: those that key planes brought "
      "up\n"
      "to be scored exactly. Columns with ? are predicted, for one row of q; the others are the\n"
      "last call's, selected and candidates the mean of all calls. Folded layers are summed.\n";
  return text;
}

std::string Explain::ToJson() const {
  Json json = {{"plan", plan},
               {"num_tokens", num_tokens},
               {"num_reused", num_reused},
               {"num_segments", num_segments},
               {"memory_bytes", memory_bytes},
               {"layers", Json::array()}};
  for (const LayerExplain& layer : layers) json["layers"].push_back(internal::JsonOf(layer));
  return DumpJson(json);
}

std::string PrefixExplain::ToText() const {
  std::string text = "reused    " + std::to_string(num_reused) + " of " +
                     std::to_string(num_prompt_tokens) + " tokens";
  if (!context.empty()) text += ", from context '" + context + "'";
  text += "\n";
  for (const std::string& reason : reasons) text += "because   " + reason + "\n";
  return text;
}

std::string PrefixExplain::ToJson() const {
  return DumpJson({{"num_prompt_tokens", num_prompt_tokens},
                   {"num_reused", num_reused},
                   {"context", context},
                   {"reasons", reasons}});
}

std::string DBStats::ToJson() const {
  return DumpJson({{"path", path},
                   {"read_only", read_only},
                   {"format_version", format_version},
                   {"num_contexts", num_contexts},
                   {"num_segments", num_segments},
                   {"num_tokens", num_tokens},
                   {"file_bytes", file_bytes},
                   {"quota_bytes", quota_bytes},
                   {"memory_bytes", memory_bytes},
                   {"memory_limit_bytes", memory_limit_bytes},
                   {"num_sessions", num_sessions},
                   {"num_damaged_segments", num_damaged_segments},
                   {"num_lookups", num_lookups},
                   {"num_prompt_tokens", num_prompt_tokens},
                   {"num_reused_tokens", num_reused_tokens},
                   {"num_stores", num_stores},
                   {"num_evictions", num_evictions},
                   {"bytes_written", bytes_written},
                   {"bytes_merged", bytes_merged}});
}

}  // namespace attndb
