#include "server/openai/text_sources.h"

#include <set>
#include <utility>

#include "attndb/db.h"
#include "engines/llama/token_ranges.h"

namespace attndb::server {
namespace {

Status Excluded(const char* field, const char* other) {
  return Status::InvalidArgument("'" + std::string(field) + "' and '" + other +
                                 "' exclude each other");
}

// The field's ranges. A text without any is refused: it would hide nothing.
Result<std::vector<TokenRange>> ReadTokens(const Json& body) {
  if (FindMember(body, "tokens") == nullptr) return std::vector<TokenRange>();
  std::string text;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "tokens", &text));
  if (text.empty()) return WrongValue("tokens", "ranges as in 0-800,1200-1500", Json(text));
  return llama::ParseTokenRanges(text);
}

}  // namespace

Status ReadContexts(const Json& body, std::vector<std::string>* contexts) {
  const Json* const list = FindMember(body, "contexts");
  if (list == nullptr) return Status::Ok();
  const std::string expected =
      "a list of 1 to " + std::to_string(DB::kMaxSessionContexts) + " contexts, each once";
  if (!list->is_array() || list->empty() || list->size() > DB::kMaxSessionContexts) {
    return WrongValue("contexts", expected, *list);
  }
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Json& name : *list) {
    const bool is_name = name.is_string() && !name.get_ref<const std::string&>().empty();
    if (!is_name || !seen.insert(name.get<std::string>()).second) {
      return WrongValue("contexts", expected, name);
    }
    names.push_back(name.get<std::string>());
  }
  *contexts = std::move(names);
  return Status::Ok();
}

Result<TextSources> ReadTextSources(const Json& body, std::string* context) {
  TextSources sources;
  ATTNDB_RETURN_IF_ERROR(ReadContexts(body, &sources.contexts));
  if (!sources.contexts.empty() && !context->empty()) return Excluded("context", "contexts");
  if (sources.contexts.size() == 1) {
    *context = std::move(sources.contexts.front());
    sources.contexts.clear();
  }
  ATTNDB_ASSIGN_OR_RETURN(sources.tokens, ReadTokens(body));
  uint64_t find = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "find", 1, DB::kMaxSessionContexts, &find));
  sources.find = static_cast<uint32_t>(find);
  return sources;
}

Status CheckTextSources(const TextSources& sources, const std::string& context,
                        const std::string& store_as) {
  if (sources.empty()) return Status::Ok();
  if (!sources.contexts.empty() && !context.empty()) return Excluded("context", "contexts");
  if (!sources.tokens.empty() && sources.find > 0) return Excluded("tokens", "find");
  if (!sources.tokens.empty() && context.empty()) {
    return Status::InvalidArgument("'tokens' is of one context: name it in 'context'");
  }
  if (store_as.empty()) return Status::Ok();
  const char* const field = !sources.contexts.empty() ? "contexts"
                            : sources.find > 0        ? "find"
                                                      : "tokens";
  return Status::InvalidArgument("'store_as' does not go with '" + std::string(field) +
                                 "': such a turn is not stored");
}

}  // namespace attndb::server
