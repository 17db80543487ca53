#include "api/c_api_json.h"

#include "api/json_text.h"
#include "attndb/fingerprint.h"

namespace attndb::internal {
namespace {

Json JsonOf(const SegmentInfo& s) {
  Json companions = Json::array();
  for (const CompanionInfo& c : s.companions) {
    companions.push_back({{"kind", c.kind}, {"file_bytes", c.file_bytes}});
  }
  return {{"segment_id", s.segment_id},         {"num_tokens_used", s.num_tokens_used},
          {"num_tokens", s.num_tokens},         {"file_bytes", s.file_bytes},
          {"num_contexts", s.num_contexts},     {"damage", s.damage},
          {"companions", std::move(companions)}};
}

Json JsonOf(const ContextInfo& c) {
  Json segments = Json::array();
  for (const SegmentInfo& segment : c.segments) segments.push_back(JsonOf(segment));
  return {{"id", static_cast<int64_t>(c.id)},
          {"name", c.name},
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
          {"ttl_seconds", c.ttl_seconds ? Json(*c.ttl_seconds) : Json()},
          {"pinned", c.pinned},
          {"expired", c.expired},
          {"damaged", c.damaged},
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
          {"segments", std::move(segments)}};
}

Json JsonOf(const LayerSpec& layer) {
  constexpr const char* kLayouts[] = {"none", "half", "interleaved"};
  return {{"num_q_heads", layer.num_q_heads},
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
          {"denominator_logits", layer.denominator_logits}};
}

}  // namespace

std::string ToJson(const ContextInfo& context) { return DumpJson(JsonOf(context)); }

std::string ToJson(std::span<const ContextInfo> contexts) {
  Json list = Json::array();
  for (const ContextInfo& context : contexts) list.push_back(JsonOf(context));
  return DumpJson(list);
}

std::string ToJson(const LayerExplain& layer) { return DumpJson(JsonOf(layer)); }

std::string ToJson(const FindResult& found) {
  Json passages = Json::array();
  for (const Passage& passage : found.passages) {
    passages.push_back({{"context", passage.context},
                        {"context_id", static_cast<int64_t>(passage.context_id)},
                        {"begin", passage.tokens.begin},
                        {"end", passage.tokens.end},
                        {"score", passage.score},
                        {"head_scores", passage.head_scores}});
  }
  Json skipped = Json::array();
  for (const SkippedContext& context : found.skipped) {
    skipped.push_back({{"context", context.context}, {"reason", context.reason}});
  }
  return DumpJson({{"passages", std::move(passages)},
                   {"skipped", std::move(skipped)},
                   {"num_contexts", found.num_contexts},
                   {"num_tokens", found.num_tokens},
                   {"num_passages", found.num_passages},
                   {"key_bytes", found.key_bytes}});
}

std::string ToJson(const RoomReport& report) {
  return DumpJson({{"num_reused", report.num_reused},
                   {"new_bytes", report.new_bytes},
                   {"evicted", report.evicted}});
}

std::string ToJson(const VerifyReport& report) {
  Json damages = Json::array();
  for (const Damage& damage : report.damages) {
    damages.push_back({{"segment_id", damage.segment_id},
                       {"file", damage.file},
                       {"message", damage.message},
                       {"contexts", damage.contexts}});
  }
  return DumpJson({{"ok", report.ok()},
                   {"num_segments", report.num_segments},
                   {"num_bytes", report.num_bytes},
                   {"damages", std::move(damages)}});
}

std::string ToJson(const BuildReport& report) {
  return DumpJson({{"kind", report.kind},
                   {"num_built", report.num_built},
                   {"num_present", report.num_present},
                   {"num_too_short", report.num_too_short},
                   {"num_missing", report.num_missing},
                   {"file_bytes", report.file_bytes},
                   {"seconds", report.seconds}});
}

std::string ToJson(const ModelSpec& spec) {
  Json layers = Json::array();
  for (const LayerSpec& layer : spec.layers) layers.push_back(JsonOf(layer));
  return DumpJson({{"fingerprint", FingerprintText(spec.fingerprint)},
                   {"model_name", spec.source.name},
                   {"model_path", spec.source.path},
                   {"kv_dtype", DTypeName(spec.kv_dtype)},
                   {"unrotated_keys", spec.unrotated_keys},
                   {"layers", std::move(layers)}});
}

}  // namespace attndb::internal

namespace attndb {

std::string ContextInfo::ToJson() const { return internal::ToJson(*this); }

}  // namespace attndb
