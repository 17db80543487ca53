// Text and JSON of the structs in stats.h.
#include <algorithm>

#include "api/stats_json.h"
#include "attndb/stats.h"
#include "attndb/units.h"
#include "common/text_table.h"

namespace attndb {
namespace {

using internal::Number;
using internal::Row;
using internal::Table;

std::string Count(double value) { return value < 0 ? "?" : Number(value, value < 100 ? 1 : 0); }

// The reason that a line of the layers' table shows in brackets behind the plan; empty: all ran as
// planned. LayerExplain::reason says why `full` runs, so it replaces the substitutes that say the
// same.
std::string WhyText(const LayerExplain& layer) {
  std::string text = layer.reason;
  for (const Substitute& each : layer.substitutes) {
    if (each.ran == "full" && !layer.reason.empty()) continue;
    text += (text.empty() ? "" : "; ") + each.ToText();
  }
  return text;
}

// Whether two layers can share a line of the table: same plan, nearly the same figures.
bool Alike(const LayerExplain& a, const LayerExplain& b) {
  const auto close = [](double x, double y) {
    return std::abs(x - y) <= 0.05 * std::max({std::abs(x), std::abs(y), 1.0});
  };
  return a.plan == b.plan && a.num_tokens == b.num_tokens && WhyText(a) == WhyText(b) &&
         close(a.selected_mean, b.selected_mean) &&
         close(a.predicted_selected, b.predicted_selected) &&
         a.predicted_bytes == b.predicted_bytes;
}

// A head's text in the table of heads. Neighbours with equal texts are folded.
struct HeadKey {
  std::string ran;
  std::string reason;
  friend bool operator==(const HeadKey&, const HeadKey&) = default;
};

HeadKey KeyOf(const HeadExplain& head) { return {head.ran, head.reason}; }

// Neighbouring heads of a layer that run the same.
struct HeadRun {
  uint32_t first = 0;
  uint32_t last = 0;
  HeadKey key;
  friend bool operator==(const HeadRun&, const HeadRun&) = default;
};

std::vector<HeadRun> RunsOf(const LayerExplain& layer) {
  std::vector<HeadRun> runs;
  for (const HeadExplain& head : layer.heads) {
    if (runs.empty() || !(runs.back().key == KeyOf(head))) {
      runs.push_back({head.kv_head, head.kv_head, KeyOf(head)});
    }
    runs.back().last = head.kv_head;
  }
  return runs;
}

std::string Range(uint64_t first, uint64_t last) {
  return std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
}

// Mean over the heads that have a figure; a negative figure is unknown.
struct Known {
  void Add(double value) {
    if (value < 0) return;
    sum += value;
    ++count;
  }
  double Mean() const { return sum / static_cast<double>(count); }

  double sum = 0;
  uint64_t count = 0;
};

std::string Percent(const Known& known) {
  return known.count == 0 ? "-" : Number(100 * known.Mean(), 2) + " %";
}

// One line: the heads of `run`, in each of the layers.
Row HeadRow(std::span<const LayerExplain> layers, const HeadRun& run) {
  HeadExplain sum;
  sum.predicted_us = sum.time_us = sum.other_us = 0;
  double selected = 0, visited = 0, clusters = 0, hops = 0;
  double weighed = 0, drawn_keys = 0, drawn_values = 0;
  Known missed, error, left, mass_bound, out_bound;
  uint64_t num_heads = 0;
  bool compared = true;
  for (const LayerExplain& layer : layers) {
    for (uint32_t i = run.first; i <= run.last; ++i) {
      const HeadExplain& head = layer.heads[i];
      ++num_heads;
      sum.predicted_bytes += head.predicted_bytes;
      sum.predicted_us += head.predicted_us;
      sum.other_us += head.other_us;
      compared = compared && head.other_us >= 0;
      sum.bytes_touched += head.bytes_touched;
      sum.time_us += head.time_us;
      selected += head.selected_mean;
      visited += head.visited_mean;
      clusters += head.clusters_mean;
      hops += head.hops_mean;
      weighed += head.weighed_mean;
      drawn_keys += head.drawn_keys_mean;
      drawn_values += head.drawn_values_mean;
      missed.Add(head.missed_mass);
      error.Add(head.error);
      left.Add(head.mass_left);
      mass_bound.Add(head.mass_bound);
      out_bound.Add(head.out_bound);
      sum.num_fallbacks += head.num_fallbacks;
    }
  }
  const bool has_run = layers.front().num_queries > 0;
  const auto mean = [&](double sum_of_heads) {
    return sum_of_heads > 0 ? Count(sum_of_heads / static_cast<double>(num_heads)) : "-";
  };
  return {Range(layers.front().layer, layers.back().layer),
          Range(run.first, run.last),
          run.key.ran + (run.key.reason.empty() ? "" : " [" + run.key.reason + "]"),
          FormatBytes(sum.predicted_bytes),
          Number(sum.predicted_us, 1),
          compared ? Number(sum.other_us, 1) : "-",
          has_run ? Count(selected / static_cast<double>(num_heads)) : "-",
          mean(visited),
          mean(clusters),
          mean(hops),
          weighed + drawn_keys > 0
              ? mean(weighed) + " > " + mean(drawn_keys) + " > " + mean(drawn_values)
              : "-",
          has_run ? FormatBytes(sum.bytes_touched) : "-",
          has_run ? Number(sum.time_us, 1) : "-",
          Percent(missed),
          Percent(error),
          Percent(left),
          Percent(mass_bound),
          out_bound.count == 0 ? "-" : Number(out_bound.Mean(), 4),
          mass_bound.count + error.count + sum.num_fallbacks == 0
              ? "-"
              : std::to_string(sum.num_fallbacks)};
}

// The execution of each head. Layers with equal heads are folded.
std::string HeadTable(const std::vector<LayerExplain>& layers) {
  std::vector<Row> rows = {{"layers", "heads", "runs [why]", "bytes?", "us?", "else us?",
                            "selected", "visited", "clusters", "hops", "codes > keys > values",
                            "bytes", "us", "missed", "error", "mass left", "at most", "off by",
                            "fell back"}};
  for (size_t begin = 0; begin < layers.size();) {
    const std::vector<HeadRun> runs = RunsOf(layers[begin]);
    size_t end = begin + 1;
    while (end < layers.size() && RunsOf(layers[end]) == runs) ++end;
    for (const HeadRun& run : runs) {
      rows.push_back(HeadRow(std::span(layers).subspan(begin, end - begin), run));
    }
    begin = end;
  }
  return Table(rows, 3);
}

// The notes of the first layer that has some: all layers see the same chain.
std::string NotesText(const std::vector<LayerExplain>& layers) {
  for (const LayerExplain& layer : layers) {
    if (!layer.notes.empty()) return "notes     " + layer.notes + "\n";
  }
  return "";
}

// The tokens of each context of a session over several.
std::string ContextsText(const std::vector<SessionContext>& contexts) {
  std::string text;
  for (const SessionContext& context : contexts) {
    text += (text.empty() ? "contexts  '" : "          '") + context.name + "' at [" +
            std::to_string(context.tokens.begin) + ", " + std::to_string(context.tokens.end) +
            "), from its token " + std::to_string(context.first_token) + " on\n";
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
  const std::string why = WhyText(first);
  Row row = {range, first.plan + (why.empty() ? "" : " [" + why + "]"),
             std::to_string(first.num_middle), Count(first.predicted_selected),
             FormatBytes(predicted)};
  if (first.num_queries == 0) {
    row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-"});
    return row;
  }
  row.push_back(Count(first.candidates_mean));
  row.push_back(Count(first.selected_mean));
  row.push_back(FormatBytes(touched));
  for (const double time : times) row.push_back(Number(time, 1));
  return row;
}

std::string DroppedText(const Explain& explain) {
  if (explain.num_dropped == 0) return "";
  const std::string stay =
      explain.num_moved == 0   ? "none stays in front: there is no attention sink"
      : explain.num_moved == 1 ? "the first stays in front, as an attention sink"
                               : std::to_string(explain.num_moved) +
                                     " stay in front, read exactly with q turned for them";
  return "dropped   " + std::to_string(explain.num_dropped) + " of these tokens; " + stay + "\n";
}

}  // namespace

std::string Substitute::ToText() const {
  const double percent = 100 * share;
  const std::string most = Number(percent, percent < 1 ? 2 : 0) + " %";
  const bool is_all = share > 1 - 5e-3;
  return ran + " instead of " + wanted + (is_all ? "" : " for " + most) + ": " + because;
}

std::string Explain::ToText() const {
  std::string text = "plan      " + plan + "\ntokens    " + std::to_string(num_tokens) + " (" +
                     std::to_string(num_reused) + " reused, in " +
                     Counted(num_segments, "segment") + ")\n" + DroppedText(*this) + "memory    " +
                     FormatBytes(memory_bytes) + "\npredicted " + Number(predicted_us * 1e-3, 2) +
                     " ms of attention a token\n";
  if (tpot_error > 0) {
    text += "objective error " + Number(tpot_error, 3) +
            (unreachable ? ": UNREACHABLE, even this error takes longer" : " meets it") + "\n";
  }
  text += ContextsText(contexts) + NotesText(layers) + "\n";
  std::vector<Row> rows = {{"layers", "plan", "middle", "selected?", "bytes?", "candidates",
                            "selected", "bytes", "append us", "score us", "select us",
                            "attend us"}};
  for (size_t begin = 0; begin < layers.size();) {
    size_t end = begin + 1;
    while (end < layers.size() && Alike(layers[begin], layers[end])) ++end;
    rows.push_back(LayerRow(std::span(layers).subspan(begin, end - begin)));
    begin = end;
  }
  text += Table(rows, 2) + "\n" + HeadTable(layers);
  text +=
      "\nselected: critical tokens per q head and row; candidates: those that key planes brought "
      "up\n"
      "to be scored exactly. Columns with ? are predicted, for one row of q; the others are the\n"
      "last call's, selected and candidates the mean of all calls. Folded layers are summed, and "
      "so\n"
      "are folded heads. Of a head, us are of one thread, and `else` is what was not chosen;\n"
      "visited, clusters and hops are of an index that does not score every key; "
      "error\n"
      "and mass left are estimates where samples were drawn. `at most` is the hard bound of the "
      "mass\n"
      "left, `off by` of the distance from full's output, `fell back` how many rows and q heads\n"
      "attended to all tokens, for their bound or the error of their draw.\n";
  return text;
}

std::string Explain::ToJson() const {
  JsonList context_list;
  for (const SessionContext& context : contexts) context_list.Add(internal::JsonOf(context));
  JsonList layer_list;
  for (const LayerExplain& layer : layers) layer_list.Add(internal::JsonOf(layer));
  JsonList substitute_list;
  for (const Substitute& each : Substitutes()) substitute_list.Add(internal::JsonOf(each));
  return JsonObject({{"plan", plan},
                     {"num_tokens", num_tokens},
                     {"num_reused", num_reused},
                     {"num_dropped", num_dropped},
                     {"num_moved", num_moved},
                     {"num_segments", num_segments},
                     {"memory_bytes", memory_bytes},
                     {"kv_bytes", kv_bytes},
                     {"predicted_us", predicted_us},
                     {"tpot_error", tpot_error},
                     {"unreachable", unreachable},
                     {"substitutes", substitute_list.Text()},
                     {"contexts", context_list.Text()},
                     {"layers", layer_list.Text()}})
      .text;
}

std::string MachineProfile::ToJson() const {
  return JsonObject({{"cpu", cpu},
                     {"isa", isa},
                     {"num_threads", num_threads},
                     {"measured", measured},
                     {"one_thread_bytes_per_ns", one_thread_bytes_per_ns},
                     {"all_threads_bytes_per_ns", all_threads_bytes_per_ns},
                     {"attend_ns", attend_ns},
                     {"score_ns", score_ns},
                     {"scan8_ns", scan8_ns},
                     {"scan4_ns", scan4_ns},
                     {"select_ns", select_ns},
                     {"row_ns", row_ns},
                     {"hop_ns", hop_ns}})
      .text;
}

std::string PrefixExplain::ToText() const {
  std::string text =
      "reused    " + std::to_string(num_reused) + " of " + Counted(num_prompt_tokens, "token");
  if (!context.empty()) text += ", from context '" + context + "'";
  text += "\n";
  for (const std::string& reason : reasons) text += "because   " + reason + "\n";
  return text;
}

std::string PrefixExplain::ToJson() const {
  return JsonObject({{"num_prompt_tokens", num_prompt_tokens},
                     {"num_reused", num_reused},
                     {"context", context},
                     {"reasons", reasons}})
      .text;
}

std::string DBStats::ToJson() const {
  return JsonObject({{"path", path},
                     {"read_only", read_only},
                     {"format_version", format_version},
                     {"num_contexts", num_contexts},
                     {"num_segments", num_segments},
                     {"num_tokens", num_tokens},
                     {"file_bytes", file_bytes},
                     {"num_companions", num_companions},
                     {"companion_bytes", companion_bytes},
                     {"num_pending_companions", num_pending_companions},
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
                     {"evicted", evicted},
                     {"bytes_written", bytes_written},
                     {"bytes_merged", bytes_merged},
                     {"num_companions_built", num_companions_built},
                     {"background_seconds", background_seconds}})
      .text;
}

}  // namespace attndb
