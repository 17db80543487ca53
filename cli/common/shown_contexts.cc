#include "cli/common/shown_contexts.h"

#include <cstddef>
#include <map>

#include "attndb/context_name.h"
#include "cli/common/context_text.h"

namespace attndb::cli {

bool IsTurnName(const std::string& name) { return name.starts_with("turn-"); }

std::string ShownName(const ContextInfo& context) {
  const bool is_named = !context.name.empty() && !IsTurnName(context.name);
  if (is_named || context.title.empty()) return NameOf(context);
  return IdName(context.id) + " " + context.title;
}

std::vector<ContextInfo> NewestTurns(std::vector<ContextInfo> contexts) {
  std::map<ContextId, size_t> num_continued;
  for (const ContextInfo& context : contexts) {
    if (context.continues != ContextId::kNone) ++num_continued[context.continues];
  }
  std::erase_if(contexts, [&](const ContextInfo& context) {
    const bool is_named = !context.name.empty() && !IsTurnName(context.name);
    const auto continued = num_continued.find(context.id);
    return !is_named && continued != num_continued.end() && continued->second == 1;
  });
  return contexts;
}

}  // namespace attndb::cli
