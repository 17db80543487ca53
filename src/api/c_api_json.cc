#include "api/c_api_json.h"

#include "api/stats_json.h"
#include "attndb/fingerprint.h"

namespace attndb::internal {
namespace {

JsonText JsonOf(const SegmentInfo& s) {
  JsonList companions;
  for (const CompanionInfo& c : s.companions) {
    companions.Add(JsonObject({{"kind", c.kind}, {"file_bytes", c.file_bytes}}));
  }
  return JsonObject({{"segment_id", s.segment_id},
                     {"num_tokens_used", s.num_tokens_used},
                     {"num_tokens", s.num_tokens},
                     {"file_bytes", s.file_bytes},
                     {"num_contexts", s.num_contexts},
                     {"damage", s.damage},
                     {"companions", companions.Text()}});
}

JsonText JsonOf(const ContextInfo& c) {
  JsonList segments;
  for (const SegmentInfo& segment : c.segments) segments.Add(JsonOf(segment));
  return JsonObject(
      {{"id", static_cast<int64_t>(c.id)},
       {"name", c.name},
       {"title", c.title},
       {"continues", c.continues == ContextId::kNone
                         ? JsonValue(nullptr)
                         : JsonValue(static_cast<int64_t>(c.continues))},
       {"num_tokens", c.num_tokens},
       {"kv_bytes", c.kv_bytes},
       {"file_bytes", c.file_bytes},
       {"own_bytes", c.own_bytes},
       {"companion_bytes", c.companion_bytes},
       {"derived_bytes", c.derived_bytes},
       {"num_pending_companions", c.num_pending_companions},
       {"retained_bytes", c.retained_bytes},
       {"query_sample_bytes", c.query_sample_bytes},
       {"created_us", c.created_us},
       {"last_access_us", c.last_access_us},
       {"ttl_seconds", c.ttl_seconds ? JsonValue(*c.ttl_seconds) : JsonValue(nullptr)},
       {"pinned", c.pinned},
       {"expired", c.expired},
       {"damaged", c.damaged},
       {"text_layout", c.text_layout.ToString()},
       {"first_position", c.first_position},
       {"kv_dtype", DTypeName(c.kv_dtype)},
       {"unrotated_keys", c.unrotated_keys},
       {"fingerprint", FingerprintText(c.fingerprint)},
       {"model_name", c.model_name},
       {"model_path", c.model_path},
       {"num_layers", c.num_layers},
       {"rope_scaling", c.rope_scaling},
       {"non_finite_heads", c.non_finite_heads},
       {"cuts", CutsJson(c.cuts)},
       {"num_dropped", c.num_dropped},
       {"segments", segments.Text()}});
}

JsonText JsonOf(const LayerSpec& layer) {
  constexpr const char* kLayouts[] = {"none", "half", "interleaved"};
  return JsonObject({{"num_q_heads", layer.num_q_heads},
                     {"num_kv_heads", layer.num_kv_heads},
                     {"head_dim", layer.head_dim},
                     {"v_head_dim", layer.v_head_dim},
                     {"scale", layer.scale},
                     {"soft_cap", layer.soft_cap},
                     {"sliding_window", layer.sliding_window},
                     {"rope_layout", kLayouts[static_cast<size_t>(layer.rope.layout)]},
                     {"rope_dims", layer.rope.rope_dims},
                     {"rope_base", layer.rope.base},
                     {"rope_scaling", layer.rope.scaling},
                     {"denominator_logits", layer.denominator_logits}});
}

}  // namespace

std::string ToJson(const ContextInfo& context) { return JsonOf(context).text; }

std::string ToJson(std::span<const ContextInfo> contexts) {
  JsonList list;
  for (const ContextInfo& context : contexts) list.Add(JsonOf(context));
  return list.Text().text;
}

std::string ToJson(const LayerExplain& layer) { return JsonOf(layer).text; }

std::string ToJson(const FindResult& found) {
  JsonList passages;
  for (const Passage& passage : found.passages) {
    passages.Add(JsonObject({{"context", passage.context},
                             {"context_id", static_cast<int64_t>(passage.context_id)},
                             {"begin", passage.tokens.begin},
                             {"end", passage.tokens.end},
                             {"score", passage.score},
                             {"head_scores", passage.head_scores}}));
  }
  JsonList skipped;
  for (const SkippedContext& context : found.skipped) {
    skipped.Add(JsonObject({{"context", context.context}, {"reason", context.reason}}));
  }
  return JsonObject({{"passages", passages.Text()},
                     {"skipped", skipped.Text()},
                     {"num_contexts", found.num_contexts},
                     {"num_tokens", found.num_tokens},
                     {"num_passages", found.num_passages},
                     {"key_bytes", found.key_bytes}})
      .text;
}

std::string ToJson(const RoomReport& report) {
  return JsonObject({{"num_reused", report.num_reused},
                     {"new_bytes", report.new_bytes},
                     {"evicted", report.evicted}})
      .text;
}

std::string ToJson(const VerifyReport& report) {
  JsonList damages;
  for (const Damage& damage : report.damages) {
    damages.Add(JsonObject({{"segment_id", damage.segment_id},
                            {"file", damage.file},
                            {"message", damage.message},
                            {"contexts", damage.contexts}}));
  }
  return JsonObject({{"ok", report.ok()},
                     {"num_segments", report.num_segments},
                     {"num_bytes", report.num_bytes},
                     {"damages", damages.Text()}})
      .text;
}

std::string ToJson(const BuildReport& report) {
  return JsonObject({{"kind", report.kind},
                     {"num_built", report.num_built},
                     {"num_present", report.num_present},
                     {"num_too_short", report.num_too_short},
                     {"num_missing", report.num_missing},
                     {"file_bytes", report.file_bytes},
                     {"seconds", report.seconds}})
      .text;
}

std::string ToJson(const ModelSpec& spec) {
  JsonList layers;
  for (const LayerSpec& layer : spec.layers) layers.Add(JsonOf(layer));
  return JsonObject({{"fingerprint", FingerprintText(spec.fingerprint)},
                     {"model_name", spec.source.name},
                     {"model_path", spec.source.path},
                     {"kv_dtype", DTypeName(spec.kv_dtype)},
                     {"unrotated_keys", spec.unrotated_keys},
                     {"layers", layers.Text()}})
      .text;
}

}  // namespace attndb::internal

namespace attndb {

std::string ContextInfo::ToJson() const { return internal::ToJson(*this); }

}  // namespace attndb
