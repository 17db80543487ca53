#include "cli/common/thread_text.h"

#include "cli/common/units.h"

namespace attndb::cli {

std::string ToText(const llama::ThreadReport& report) {
  std::string text = "threads: " + std::to_string(report.now);
  if (report.now != report.most) text += " of " + std::to_string(report.most) + " now";
  if (report.changes.empty()) return text;
  const llama::ThreadChange& last = report.changes.back();
  return text + "; the last change: " + std::to_string(last.from) + " -> " +
         std::to_string(last.to) + " after " + Counted(last.pass, "step") + ", " +
         FormatSeconds(last.from_seconds) + " -> " + FormatSeconds(last.to_seconds) + " a step";
}

Json ToJson(const llama::ThreadReport& report) {
  Json changes = Json::array();
  for (const llama::ThreadChange& change : report.changes) {
    changes.push_back(JsonObject({{"pass", change.pass},
                                  {"from", change.from},
                                  {"to", change.to},
                                  {"from_ms", 1e3 * change.from_seconds},
                                  {"to_ms", 1e3 * change.to_seconds}}));
  }
  return JsonObject({{"most", report.most}, {"now", report.now}, {"changes", changes}});
}

}  // namespace attndb::cli
