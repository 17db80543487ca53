// Text and JSON of the report in tiers.h.
#include <cstdio>
#include <string>
#include <vector>

#include "attndb/tiers.h"
#include "attndb/units.h"
#include "common/json_text.h"
#include "common/text_table.h"

namespace attndb {
namespace {

using internal::Number;
using internal::Row;

std::string Percent(double rate) { return rate < 0 ? "-" : Number(100 * rate, 1); }

// "128 GB", "1.5 TB".
std::string Size(uint64_t bytes) {
  const double gb = static_cast<double>(bytes) / 1e9;
  char text[48];
  std::snprintf(text, sizeof(text), "%.4g %s", gb < 1000 ? gb : gb / 1000, gb < 1000 ? "GB" : "TB");
  return text;
}

std::string Seconds(double seconds) {
  if (seconds < 1) return Number(1000 * seconds, 0) + " ms";
  return Number(seconds, seconds < 100 ? 1 : 0) + " s";
}

Row RowOf(const SimulatedRun& run) {
  Row row = {Size(run.memory_bytes),  Size(run.disk_bytes),         run.policy,
             Percent(run.hit_rate),   Percent(run.memory_hit_rate), Percent(run.return_hit_rate),
             Percent(run.reused_rate)};
  if (run.bound_hit_rate >= 0) row.push_back(Percent(run.bound_hit_rate));
  for (const std::string& cell :
       {Seconds(run.ttft_seconds), Seconds(run.queue_seconds + run.ttft_seconds),
        Number(run.turns_per_second, 2), Number(run.gpu_hours, 1),
        Number(run.dollars_per_thousand_turns, 2)}) {
    row.push_back(cell);
  }
  return row;
}

JsonText JsonOf(const SimulatedModel& model) {
  return JsonObject({{"name", model.name},
                     {"kv_bytes_per_token", model.kv_bytes_per_token},
                     {"window_tokens", model.window_tokens},
                     {"prefill_tokens_per_second", model.prefill_tokens_per_second},
                     {"decode_seconds", model.decode_seconds},
                     {"num_gpus", model.num_gpus}});
}

JsonText JsonOf(const SimulatedRun& run) {
  return JsonObject({{"policy", run.policy},
                     {"memory_bytes", run.memory_bytes},
                     {"disk_bytes", run.disk_bytes},
                     {"hit_rate", run.hit_rate},
                     {"hit_deviation", run.hit_deviation},
                     {"memory_hit_rate", run.memory_hit_rate},
                     {"disk_hit_rate", run.disk_hit_rate},
                     {"return_hit_rate", run.return_hit_rate},
                     {"reused_rate", run.reused_rate},
                     {"bound_hit_rate", run.bound_hit_rate},
                     {"ttft_seconds", run.ttft_seconds},
                     {"queue_seconds", run.queue_seconds},
                     {"first_turn_queue_seconds", run.first_turn_queue_seconds},
                     {"queue_length", run.queue_length},
                     {"turns_per_second", run.turns_per_second},
                     {"prefill_tokens_per_second", run.prefill_tokens_per_second},
                     {"answer_tokens_per_second", run.answer_tokens_per_second},
                     {"gpu_hours", run.gpu_hours},
                     {"hours", run.hours},
                     {"disk_write_bytes_per_second", run.disk_write_bytes_per_second},
                     {"disk_read_bytes_per_second", run.disk_read_bytes_per_second},
                     {"dollars", run.dollars},
                     {"storage_dollars", run.storage_dollars},
                     {"dollars_per_thousand_turns", run.dollars_per_thousand_turns}});
}

}  // namespace

std::string SimulateReport::ToText() const {
  const bool has_bound = !runs.empty() && runs.front().bound_hit_rate >= 0;
  Row header = {"memory", "disk", "policy", "hits %", "in memory", "of returns", "tokens"};
  if (has_bound) header.emplace_back("Belady");
  for (const char* name : {"TTFT", "with queue", "turns/s", "GPU h", "$ per 1000"}) {
    header.emplace_back(name);
  }
  std::vector<Row> rows = {header};
  for (const SimulatedRun& run : runs) rows.push_back(RowOf(run));
  std::string text = "model     " + (model.name.empty() ? "" : model.name + ": ") +
                     FormatBytes(model.kv_bytes_per_token) + " of KV a token, window of " +
                     Counted(model.window_tokens, "token") + ", " + Counted(model.num_gpus, "GPU") +
                     "\n";
  text += "workload  " + workload + "; " + std::to_string(num_turns) + " turns, " +
          std::to_string(num_counted) + " of them counted";
  if (num_seeds > 1) text += "; means of " + std::to_string(num_seeds) + " seeds";
  return text + "\n\n" + internal::Table(rows, 3);
}

std::string SimulateReport::ToJson() const {
  JsonList list;
  for (const SimulatedRun& run : runs) list.Add(JsonOf(run));
  return JsonObject({{"model", JsonOf(model)},
                     {"workload", workload},
                     {"num_conversations", num_conversations},
                     {"num_turns", num_turns},
                     {"num_counted", num_counted},
                     {"num_seeds", num_seeds},
                     {"runs", list.Text()}})
      .text;
}

}  // namespace attndb
