#include "server/routes/find_request.h"

#include <cstdint>

#include "engines/llama/utf8_bytes.h"
#include "server/openai/text_sources.h"

namespace attndb::server {

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
