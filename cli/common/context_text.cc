#include "cli/common/context_text.h"

#include <utility>

#include "attndb/fingerprint.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

std::string State(const ContextInfo& context) {
  if (context.damaged) return "DAMAGED";
  if (context.pinned) return "pinned";
  return "";
}

Json ToJson(const SegmentInfo& segment) {
  Json companions = Json::array();
  for (const CompanionInfo& companion : segment.companions) {
    companions.push_back({{"kind", companion.kind},
                          {"generation", companion.generation},
                          {"file_bytes", companion.file_bytes}});
  }
  return {{"segment_id", segment.segment_id},     {"num_tokens_used", segment.num_tokens_used},
          {"num_tokens", segment.num_tokens},     {"file_bytes", segment.file_bytes},
          {"num_contexts", segment.num_contexts}, {"damage", segment.damage},
          {"companions", std::move(companions)}};
}

std::string SegmentTable(const std::vector<SegmentInfo>& segments) {
  Table table({{"SEGMENT"},
               {"TOKENS", Align::kRight},
               {"OF", Align::kRight},
               {"SIZE", Align::kRight},
               {"CONTEXTS", Align::kRight},
               {"STATE"}});
  for (const SegmentInfo& segment : segments) {
    table.AddRow({std::to_string(segment.segment_id), FormatCount(segment.num_tokens_used),
                  FormatCount(segment.num_tokens), FormatBytes(segment.file_bytes),
                  FormatCount(segment.num_contexts),
                  segment.damage.empty() ? "ok" : "DAMAGED: " + segment.damage});
  }
  return table.ToText();
}

std::string PendingText(uint64_t num_pending) {
  return num_pending == 0 ? "" : ", not built of " + FormatCount(num_pending) + " segments";
}

std::string DerivedText(const ContextInfo& context) {
  std::string text;
  for (const auto& [kind, bytes] : context.derived_bytes) {
    text += (text.empty() ? "" : ", ") + kind + " " + FormatBytes(bytes);
  }
  return (text.empty() ? "none" : text) + PendingText(context.num_pending_companions);
}

}  // namespace

std::string IdName(ContextId id) { return "#" + std::to_string(static_cast<int64_t>(id)); }

std::string NameOf(const ContextInfo& context) {
  return context.name.empty() ? IdName(context.id) : context.name;
}

std::string PlanesText(uint64_t bytes, uint64_t num_pending) {
  return (bytes == 0 && num_pending == 0 ? "none" : FormatBytes(bytes)) + PendingText(num_pending);
}

Json ToJson(const std::vector<Cut>& cuts) {
  Json list = Json::array();
  for (const Cut& cut : cuts) {
    Json dropped = Json::array();
    for (const TokenRange& range : cut.dropped) dropped.push_back({range.begin, range.end});
    list.push_back({{"at", cut.at}, {"dropped", std::move(dropped)}});
  }
  return list;
}

Json ToJson(const ContextInfo& context) {
  Json segments = Json::array();
  for (const SegmentInfo& segment : context.segments) segments.push_back(ToJson(segment));
  Json json = {{"id", static_cast<int64_t>(context.id)},
               {"name", context.name},
               {"num_tokens", context.num_tokens},
               {"kv_bytes", context.kv_bytes},
               {"file_bytes", context.file_bytes},
               {"own_bytes", context.own_bytes},
               {"companion_bytes", context.companion_bytes},
               {"num_pending_companions", context.num_pending_companions},
               {"derived_bytes", context.derived_bytes},
               {"retained_bytes", context.retained_bytes},
               {"query_sample_bytes", context.query_sample_bytes},
               {"created_us", context.created_us},
               {"last_access_us", context.last_access_us},
               {"ttl_seconds", context.ttl_seconds ? Json(*context.ttl_seconds) : Json()},
               {"pinned", context.pinned},
               {"damaged", context.damaged},
               {"first_position", context.first_position},
               {"kv_dtype", DTypeName(context.kv_dtype)},
               {"fingerprint", FingerprintText(context.fingerprint)},
               {"num_layers", context.num_layers},
               {"rope_scaling", context.rope_scaling},
               {"non_finite_heads", context.non_finite_heads},
               {"cuts", ToJson(context.cuts)},
               {"num_dropped", context.num_dropped}};
  if (!context.segments.empty()) json["segments"] = std::move(segments);
  return json;
}

std::string ContextTable(const std::vector<ContextInfo>& contexts, int64_t now_us) {
  Table table({{"NAME"},
               {"TOKENS", Align::kRight},
               {"SIZE", Align::kRight},
               {"CREATED"},
               {"USED"},
               {"EXPIRES"},
               {"STATE"}});
  for (const ContextInfo& context : contexts) {
    table.AddRow({NameOf(context), FormatCount(context.num_tokens), FormatBytes(context.file_bytes),
                  FormatAge(context.created_us, now_us), FormatAge(context.last_access_us, now_us),
                  FormatTtl(context.ttl_seconds), State(context)});
  }
  return table.ToText();
}

namespace {

std::string DroppedText(const ContextInfo& context) {
  std::string text = FormatCount(context.num_dropped) + " of these tokens have left";
  for (const Cut& cut : context.cuts) {
    text += "; at " + FormatCount(cut.at) + " tokens";
    for (const TokenRange& range : cut.dropped) {
      text += (&range == cut.dropped.data() ? " " : ", ") + FormatCount(range.begin) + " to " +
              FormatCount(range.end - 1);
    }
  }
  return text;
}

}  // namespace

std::string ContextText(const ContextInfo& context, int64_t now_us) {
  const auto when = [&](int64_t us) { return FormatAge(us, now_us) + " (" + FormatTime(us) + ")"; };
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"name", context.name.empty() ? "(none)" : context.name},
      {"id", IdName(context.id)},
      {"tokens", FormatCount(context.num_tokens)},
      {"KV", FormatBytes(context.kv_bytes) + ", " + std::string(DTypeName(context.kv_dtype)) +
                 ", " + std::to_string(context.num_layers) + " layers"},
      {"on disk", FormatBytes(context.file_bytes) + ", " + FormatBytes(context.own_bytes) +
                      " of it shared with no other context"},
      {"derived", DerivedText(context)},
      {"query sample", FormatBytes(context.query_sample_bytes)},
      {"retained", FormatBytes(context.retained_bytes) + " of tokens that no context uses"},
      {"created", when(context.created_us)},
      {"used", when(context.last_access_us)},
      {"expires", context.pinned        ? "never (pinned)"
                  : context.ttl_seconds ? FormatTtl(context.ttl_seconds) + " after the last use"
                                        : "never"},
      {"fingerprint", FingerprintText(context.fingerprint)}};
  if (context.first_position != 0) {
    pairs.emplace_back("first position", std::to_string(context.first_position));
  }
  if (!context.rope_scaling.empty()) pairs.emplace_back("RoPE scaling", context.rope_scaling);
  if (context.num_dropped > 0) pairs.emplace_back("dropped", DroppedText(context));
  if (context.damaged) pairs.emplace_back("state", "DAMAGED: it is not served");
  std::string heads;
  for (const std::string& head : context.non_finite_heads) {
    heads += (heads.empty() ? "" : ", ") + head;
  }
  if (!heads.empty()) pairs.emplace_back("NaN or Inf in", heads + " (these always run full)");
  return PairsText(pairs) + "\n" + SegmentTable(context.segments);
}

}  // namespace attndb::cli
