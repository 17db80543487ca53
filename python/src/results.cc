#include "python/src/results.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "attndb/dtype.h"
#include "python/src/path.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

// Makes a str of text that may be no UTF-8.
nb::object Text(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::tuple Strings(const std::vector<std::string>& strings) {
  nb::list list;
  for (const std::string& text : strings) list.append(text);
  return nb::tuple(list);
}

Dict CompanionDict(const CompanionInfo& companion) {
  Dict dict;
  dict["kind"] = companion.kind;
  dict["file_bytes"] = companion.file_bytes;
  return dict;
}

template <typename T>
nb::list Dicts(const std::vector<T>& rows, Dict (*to_dict)(const T&)) {
  nb::list list;
  for (const T& row : rows) list.append(to_dict(row));
  return list;
}

Dict SegmentDict(const SegmentInfo& segment) {
  Dict dict;
  dict["segment_id"] = segment.segment_id;
  dict["num_tokens_used"] = segment.num_tokens_used;
  dict["num_tokens"] = segment.num_tokens;
  dict["file_bytes"] = segment.file_bytes;
  dict["num_contexts"] = segment.num_contexts;
  dict["damage"] = segment.damage;
  dict["companions"] = Dicts(segment.companions, CompanionDict);
  return dict;
}

Dict DamageDict(const Damage& damage) {
  Dict dict;
  dict["segment_id"] = damage.segment_id;
  dict["file"] = damage.file;
  dict["message"] = damage.message;
  dict["contexts"] = Strings(damage.contexts);
  return dict;
}

Dict PassageDict(const Passage& passage) {
  nb::list head_scores;
  for (const float score : passage.head_scores) head_scores.append(score);
  Dict dict;
  dict["context"] = passage.context;
  dict["context_id"] = static_cast<int64_t>(passage.context_id);
  dict["begin"] = passage.tokens.begin;
  dict["end"] = passage.tokens.end;
  dict["score"] = passage.score;
  dict["head_scores"] = nb::tuple(head_scores);
  return dict;
}

Dict SkippedDict(const SkippedContext& skipped) {
  Dict dict;
  dict["context"] = skipped.context;
  dict["reason"] = skipped.reason;
  return dict;
}

Dict ContextDict(const SessionContext& context) { return python::ToDict(context); }

Dict LayerDict(const LayerExplain& layer) { return python::ToDict(layer); }

nb::tuple Numbers(const std::vector<double>& values) {
  nb::list list;
  for (const double value : values) list.append(value);
  return nb::tuple(list);
}

Dict SubstituteDict(const Substitute& substitute) {
  Dict dict;
  dict["ran"] = substitute.ran;
  dict["wanted"] = substitute.wanted;
  dict["because"] = substitute.because;
  dict["share"] = substitute.share;
  dict["text"] = substitute.ToText();
  return dict;
}

Dict HeadDict(const HeadExplain& head) {
  Dict dict;
  dict["kv_head"] = head.kv_head;
  dict["plan"] = head.plan;
  dict["ran"] = head.ran;
  dict["reason"] = head.reason;
  dict["predicted_selected"] = head.predicted_selected;
  dict["predicted_bytes"] = head.predicted_bytes;
  dict["predicted_us"] = head.predicted_us;
  dict["other_us"] = head.other_us;
  dict["selected_mean"] = head.selected_mean;
  dict["visited_mean"] = head.visited_mean;
  dict["clusters_mean"] = head.clusters_mean;
  dict["hops_mean"] = head.hops_mean;
  dict["num_full_scans"] = head.num_full_scans;
  dict["weighed_mean"] = head.weighed_mean;
  dict["drawn_keys_mean"] = head.drawn_keys_mean;
  dict["drawn_values_mean"] = head.drawn_values_mean;
  dict["missed_mass"] = head.missed_mass;
  dict["bytes_touched"] = head.bytes_touched;
  dict["time_us"] = head.time_us;
  dict["error"] = head.error;
  dict["mass_left"] = head.mass_left;
  dict["mass_bound"] = head.mass_bound;
  dict["out_bound"] = head.out_bound;
  dict["num_fallbacks"] = head.num_fallbacks;
  dict["num_redraws"] = head.num_redraws;
  dict["last_mass_bounds"] = Numbers(head.last_mass_bounds);
  dict["last_out_bounds"] = Numbers(head.last_out_bounds);
  return dict;
}

Dict SimulatedModelDict(const SimulatedModel& model) {
  Dict dict;
  dict["name"] = model.name;
  dict["kv_bytes_per_token"] = model.kv_bytes_per_token;
  dict["window_tokens"] = model.window_tokens;
  dict["prefill_tokens_per_second"] = model.prefill_tokens_per_second;
  dict["decode_seconds"] = model.decode_seconds;
  dict["num_gpus"] = model.num_gpus;
  return dict;
}

Dict SimulatedRunDict(const SimulatedRun& run) {
  Dict dict;
  dict["policy"] = run.policy;
  dict["memory_bytes"] = run.memory_bytes;
  dict["disk_bytes"] = run.disk_bytes;
  dict["hit_rate"] = run.hit_rate;
  dict["hit_deviation"] = run.hit_deviation;
  dict["memory_hit_rate"] = run.memory_hit_rate;
  dict["disk_hit_rate"] = run.disk_hit_rate;
  dict["return_hit_rate"] = run.return_hit_rate;
  dict["reused_rate"] = run.reused_rate;
  dict["bound_hit_rate"] = run.bound_hit_rate;
  dict["ttft_seconds"] = run.ttft_seconds;
  dict["queue_seconds"] = run.queue_seconds;
  dict["first_turn_queue_seconds"] = run.first_turn_queue_seconds;
  dict["queue_length"] = run.queue_length;
  dict["turns_per_second"] = run.turns_per_second;
  dict["prefill_tokens_per_second"] = run.prefill_tokens_per_second;
  dict["answer_tokens_per_second"] = run.answer_tokens_per_second;
  dict["gpu_hours"] = run.gpu_hours;
  dict["hours"] = run.hours;
  dict["disk_write_bytes_per_second"] = run.disk_write_bytes_per_second;
  dict["disk_read_bytes_per_second"] = run.disk_read_bytes_per_second;
  dict["dollars"] = run.dollars;
  dict["storage_dollars"] = run.storage_dollars;
  dict["dollars_per_thousand_turns"] = run.dollars_per_thousand_turns;
  return dict;
}

}  // namespace

Dict ToDict(const ContextInfo& info) {
  Dict dict;
  dict["id"] = static_cast<int64_t>(info.id);
  dict["name"] = info.name;
  dict["title"] = info.title;
  dict["continues"] = info.continues == ContextId::kNone
                          ? nb::none()
                          : nb::object(nb::int_(static_cast<int64_t>(info.continues)));
  dict["num_tokens"] = info.num_tokens;
  dict["kv_bytes"] = info.kv_bytes;
  dict["file_bytes"] = info.file_bytes;
  dict["own_bytes"] = info.own_bytes;
  dict["companion_bytes"] = info.companion_bytes;
  Dict derived_bytes;
  for (const auto& [kind, bytes] : info.derived_bytes) derived_bytes[kind.c_str()] = bytes;
  dict["derived_bytes"] = derived_bytes;
  dict["num_pending_companions"] = info.num_pending_companions;
  dict["retained_bytes"] = info.retained_bytes;
  dict["query_sample_bytes"] = info.query_sample_bytes;
  dict["created_us"] = info.created_us;
  dict["last_access_us"] = info.last_access_us;
  dict["ttl_seconds"] = info.ttl_seconds;
  dict["pinned"] = info.pinned;
  dict["expired"] = info.expired;
  dict["damaged"] = info.damaged;
  dict["text_layout"] = info.text_layout.ToString();
  dict["first_position"] = info.first_position;
  dict["kv_dtype"] = DTypeName(info.kv_dtype);
  dict["unrotated_keys"] = info.unrotated_keys;
  dict["fingerprint"] = nb::bytes(info.fingerprint.data(), info.fingerprint.size());
  dict["model_name"] = Text(info.model_name);
  dict["model_path"] = Text(info.model_path);
  dict["num_layers"] = info.num_layers;
  dict["rope_scaling"] = info.rope_scaling;
  dict["non_finite_heads"] = Strings(info.non_finite_heads);
  dict["cuts"] = ToList(info.cuts);
  dict["num_dropped"] = info.num_dropped;
  dict["segments"] = Dicts(info.segments, SegmentDict);
  return dict;
}

Dict ToDict(const LayerExplain& layer) {
  Dict dict;
  dict["layer"] = layer.layer;
  dict["plan"] = layer.plan;
  dict["ran"] = layer.ran;
  dict["substitutes"] = Dicts(layer.substitutes, SubstituteDict);
  dict["reason"] = layer.reason;
  dict["num_tokens"] = layer.num_tokens;
  dict["num_middle"] = layer.num_middle;
  dict["predicted_selected"] = layer.predicted_selected;
  dict["predicted_bytes"] = layer.predicted_bytes;
  dict["predicted_us"] = layer.predicted_us;
  dict["notes"] = layer.notes;
  dict["num_queries"] = layer.num_queries;
  dict["selected_mean"] = layer.selected_mean;
  dict["candidates_mean"] = layer.candidates_mean;
  dict["bytes_touched"] = layer.bytes_touched;
  dict["score_us"] = layer.score_us;
  dict["select_us"] = layer.select_us;
  dict["attend_us"] = layer.attend_us;
  dict["append_us"] = layer.append_us;
  dict["heads"] = Dicts(layer.heads, HeadDict);
  return dict;
}

std::vector<Cut> CutsFromPython(const CutList& list) {
  std::vector<Cut> cuts;
  for (const auto& [at, dropped] : list) {
    cuts.push_back({at, {}});
    for (const auto& [begin, end] : dropped) cuts.back().dropped.push_back({begin, end});
  }
  return cuts;
}

CutList ToList(const std::vector<Cut>& cuts) {
  CutList list;
  for (const Cut& cut : cuts) {
    list.emplace_back(cut.at, std::vector<std::pair<uint64_t, uint64_t>>());
    for (const TokenRange& range : cut.dropped) {
      list.back().second.emplace_back(range.begin, range.end);
    }
  }
  return list;
}

Dict ToDict(const SessionContext& context) {
  Dict dict;
  dict["id"] = static_cast<int64_t>(context.id);
  dict["name"] = context.name;
  dict["begin"] = context.tokens.begin;
  dict["end"] = context.tokens.end;
  dict["first_token"] = context.first_token;
  return dict;
}

Dict ToDict(const Explain& explain) {
  Dict dict;
  dict["plan"] = explain.plan;
  dict["num_tokens"] = explain.num_tokens;
  dict["num_reused"] = explain.num_reused;
  dict["num_dropped"] = explain.num_dropped;
  dict["num_moved"] = explain.num_moved;
  dict["num_segments"] = explain.num_segments;
  dict["memory_bytes"] = explain.memory_bytes;
  dict["kv_bytes"] = explain.kv_bytes;
  dict["predicted_us"] = explain.predicted_us;
  dict["tpot_error"] = explain.tpot_error;
  dict["unreachable"] = explain.unreachable;
  dict["contexts"] = Dicts(explain.contexts, ContextDict);
  dict["layers"] = Dicts(explain.layers, LayerDict);
  dict["substitutes"] = Dicts(explain.Substitutes(), SubstituteDict);
  dict["summary"] = explain.Summary();
  dict["text"] = explain.ToText();
  return dict;
}

Dict ToDict(const RoomReport& report) {
  Dict dict;
  dict["num_reused"] = report.num_reused;
  dict["new_bytes"] = report.new_bytes;
  dict["evicted"] = Strings(report.evicted);
  return dict;
}

Dict ToDict(const PrefixExplain& explain) {
  Dict dict;
  dict["num_prompt_tokens"] = explain.num_prompt_tokens;
  dict["num_reused"] = explain.num_reused;
  dict["context"] = explain.context;
  dict["reasons"] = Strings(explain.reasons);
  dict["text"] = explain.ToText();
  return dict;
}

Dict ToDict(const VerifyReport& report) {
  Dict dict;
  dict["num_segments"] = report.num_segments;
  dict["num_bytes"] = report.num_bytes;
  dict["damages"] = Dicts(report.damages, DamageDict);
  return dict;
}

Dict ToDict(const BuildReport& report) {
  Dict dict;
  dict["kind"] = report.kind;
  dict["num_built"] = report.num_built;
  dict["num_present"] = report.num_present;
  dict["num_too_short"] = report.num_too_short;
  dict["num_missing"] = report.num_missing;
  dict["file_bytes"] = report.file_bytes;
  dict["seconds"] = report.seconds;
  return dict;
}

Dict ToDict(const FindResult& found) {
  Dict dict;
  dict["passages"] = Dicts(found.passages, PassageDict);
  dict["skipped"] = Dicts(found.skipped, SkippedDict);
  dict["num_contexts"] = found.num_contexts;
  dict["num_tokens"] = found.num_tokens;
  dict["num_passages"] = found.num_passages;
  dict["key_bytes"] = found.key_bytes;
  return dict;
}

Dict ToDict(const MachineProfile& machine) {
  Dict dict;
  dict["cpu"] = machine.cpu;
  dict["isa"] = machine.isa;
  dict["num_threads"] = machine.num_threads;
  dict["measured"] = machine.measured;
  dict["one_thread_bytes_per_ns"] = machine.one_thread_bytes_per_ns;
  dict["all_threads_bytes_per_ns"] = machine.all_threads_bytes_per_ns;
  dict["attend_ns"] = Numbers(machine.attend_ns);
  dict["score_ns"] = Numbers(machine.score_ns);
  dict["scan8_ns"] = Numbers(machine.scan8_ns);
  dict["scan4_ns"] = Numbers(machine.scan4_ns);
  dict["select_ns"] = machine.select_ns;
  dict["row_ns"] = machine.row_ns;
  dict["hop_ns"] = machine.hop_ns;
  return dict;
}

Dict ToDict(const DBStats& stats) {
  Dict dict;
  dict["path"] = PathText(stats.path);
  dict["read_only"] = stats.read_only;
  dict["format_version"] = stats.format_version;
  dict["num_contexts"] = stats.num_contexts;
  dict["num_segments"] = stats.num_segments;
  dict["num_tokens"] = stats.num_tokens;
  dict["file_bytes"] = stats.file_bytes;
  dict["num_companions"] = stats.num_companions;
  dict["companion_bytes"] = stats.companion_bytes;
  dict["num_pending_companions"] = stats.num_pending_companions;
  dict["quota_bytes"] = stats.quota_bytes;
  dict["memory_bytes"] = stats.memory_bytes;
  dict["memory_limit_bytes"] = stats.memory_limit_bytes;
  dict["num_sessions"] = stats.num_sessions;
  dict["num_damaged_segments"] = stats.num_damaged_segments;
  dict["num_lookups"] = stats.num_lookups;
  dict["num_prompt_tokens"] = stats.num_prompt_tokens;
  dict["num_reused_tokens"] = stats.num_reused_tokens;
  dict["num_stores"] = stats.num_stores;
  dict["num_evictions"] = stats.num_evictions;
  dict["evicted"] = Strings(stats.evicted);
  dict["bytes_written"] = stats.bytes_written;
  dict["bytes_merged"] = stats.bytes_merged;
  dict["num_companions_built"] = stats.num_companions_built;
  dict["background_seconds"] = stats.background_seconds;
  return dict;
}

Dict ToDict(const SimulateReport& report) {
  Dict dict;
  dict["model"] = SimulatedModelDict(report.model);
  dict["workload"] = report.workload;
  dict["num_conversations"] = report.num_conversations;
  dict["num_turns"] = report.num_turns;
  dict["num_counted"] = report.num_counted;
  dict["num_seeds"] = report.num_seeds;
  dict["runs"] = Dicts(report.runs, SimulatedRunDict);
  dict["text"] = report.ToText();
  return dict;
}

}  // namespace attndb::python
