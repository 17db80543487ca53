#include "server/routes/find_request.h"

#include <cstdint>
#include <set>

#include "attndb/db.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::server {

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

Result<FindRequest> ParseFind(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  FindRequest request;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "question", &request.question));
  if (llama::WithoutBom(request.question).empty()) {
    return Status::InvalidArgument("'question' is missing or empty, expected what is looked for");
  }
  std::string context;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &context));
  ATTNDB_RETURN_IF_ERROR(ReadContexts(body, &request.options.contexts));
  if (!context.empty() && !request.options.contexts.empty()) {
    return Status::InvalidArgument("'context' and 'contexts' exclude each other");
  }
  if (!context.empty()) request.options.contexts = {context};
  uint64_t count = request.options.limit;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "top", 1, kMaxFoundPassages, &count));
  request.options.limit = static_cast<uint32_t>(count);
  count = request.options.passage_tokens;
  ATTNDB_RETURN_IF_ERROR(
      ReadCount(body, "passage_tokens", 2, FindOptions::kMaxPassageTokens, &count));
  if (count % 2 != 0) return WrongValue("passage_tokens", "an even number", Json(count));
  request.options.passage_tokens = static_cast<uint32_t>(count);
  return request;
}

}  // namespace attndb::server
