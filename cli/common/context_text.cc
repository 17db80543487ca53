#include "cli/common/context_text.h"

#include <utility>

#include "attndb/context_name.h"
#include "attndb/fingerprint.h"
#include "cli/common/shown_contexts.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

constexpr size_t kMinNameWidth = 16;

std::string State(const ContextInfo& context) {
  if (context.damaged) return "DAMAGED";
  if (context.pinned) return "pinned";
  if (context.expired) return "expired";
  return "";
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
  return num_pending == 0 ? "" : ", not built of " + Counted(num_pending, "segment");
}

std::string DerivedText(const ContextInfo& context) {
  std::string text;
  for (const auto& [kind, bytes] : context.derived_bytes) {
    text += (text.empty() ? "" : ", ") + kind + " " + FormatBytes(bytes);
  }
  return (text.empty() ? "none" : text) + PendingText(context.num_pending_companions);
}

}  // namespace

std::string NameOf(const ContextInfo& context) {
  return context.name.empty() ? IdName(context.id) : context.name;
}

std::string PlanesText(uint64_t bytes, uint64_t num_pending) {
  return (bytes == 0 && num_pending == 0 ? "none" : FormatBytes(bytes)) + PendingText(num_pending);
}

Json ToJson(const ContextInfo& context) {
  Json json = ReadOwnJson(context.ToJson());
  if (context.segments.empty()) json.erase("segments");
  return json;
}

std::string ContextTable(const std::vector<ContextInfo>& contexts, int64_t now_us,
                         size_t max_width) {
  Table table({{.header = "NAME", .min_width = kMinNameWidth},
               {"TOKENS", Align::kRight},
               {.header = "OWN", .align = Align::kRight, .rank = 3},
               {"SIZE", Align::kRight},
               {.header = "CREATED", .rank = 4},
               {"USED"},
               {.header = "EXPIRES", .rank = 1},
               {"STATE"},
               {.header = "MODEL", .min_width = 10, .rank = 2}});
  for (const ContextInfo& context : contexts) {
    table.AddRow({ShownName(context), FormatCount(context.num_tokens),
                  FormatBytes(context.own_bytes), FormatBytes(context.file_bytes),
                  FormatAge(context.created_us, now_us), FormatAge(context.last_access_us, now_us),
                  FormatTtl(context.ttl_seconds), State(context), context.model_name});
  }
  return table.ToText(max_width);
}

namespace {

std::string ModelText(const ContextInfo& context) {
  if (context.model_name.empty())
    return context.model_path.empty() ? "(not known)" : context.model_path;
  return context.model_name + (context.model_path.empty() ? "" : " (" + context.model_path + ")");
}

std::string DroppedText(const ContextInfo& context) {
  std::string text = FormatCount(context.num_dropped) + " of these tokens have left";
  for (const Cut& cut : context.cuts) {
    text += "; at " + Counted(cut.at, "token");
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
                 ", " + Counted(context.num_layers, "layer") +
                 (context.unrotated_keys ? ", keys without RoPE" : "")},
      {"on disk", FormatBytes(context.file_bytes) + ", " + FormatBytes(context.own_bytes) +
                      " of it shared with no other context"},
      {"derived", DerivedText(context)},
      {"query sample", FormatBytes(context.query_sample_bytes)},
      {"retained", FormatBytes(context.retained_bytes) + " of tokens that no context uses"},
      {"created", when(context.created_us)},
      {"used", when(context.last_access_us)},
      {"expires", context.pinned    ? "never (pinned)"
                  : context.expired ? "it has: " + FormatTtl(context.ttl_seconds) +
                                          " after its last use, so that it is not served"
                  : context.ttl_seconds ? FormatTtl(context.ttl_seconds) + " after the last use"
                                        : "never"},
      {"model", ModelText(context)},
      {"fingerprint", FingerprintText(context.fingerprint)}};
  if (!context.title.empty()) pairs.emplace(pairs.begin() + 1, "title", context.title);
  if (context.continues != ContextId::kNone) {
    pairs.emplace_back("continues", IdName(context.continues));
  }
  if (context.first_position != 0) {
    pairs.emplace_back("first position", std::to_string(context.first_position));
  }
  if (!context.rope_scaling.empty()) pairs.emplace_back("RoPE scaling", context.rope_scaling);
  if (context.text_layout.form != TextForm::kUnknown) {
    const std::string layout = context.text_layout.ToString();
    pairs.emplace_back("text", layout.substr(0, layout.find(' ')));
  }
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
