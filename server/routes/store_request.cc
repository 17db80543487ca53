#include "server/routes/store_request.h"

#include "attndb/options.h"
#include "server/routes/import_request.h"

namespace attndb::server {

Result<ContextChange> ParseChange(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  ContextChange change;
  const auto pinned = body.find("pinned");
  if (pinned != body.end()) {
    if (!pinned->is_boolean()) return Status::InvalidArgument("'pinned' is neither true nor false");
    change.pinned = pinned->get<bool>();
  }
  change.sets_ttl = body.contains("ttl_seconds");
  ATTNDB_RETURN_IF_ERROR(ReadTtl(body, &change.ttl));
  if (body.contains("name")) {
    ATTNDB_RETURN_IF_ERROR(ReadString(body, "name", &change.name.emplace()));
  }
  return change;
}

Result<StoredTextRequest> ParseStoredText(const Json& body) {
  StoredTextRequest request;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &request.context));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "special", &request.special));
  if (!request.context.empty()) return request;
  return Status::InvalidArgument("'context' is missing, expected a name");
}

Result<UpkeepRequest> ParseUpkeep(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  UpkeepRequest request;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "context", &request.context));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "index", &request.index));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "stream", &request.stream));
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "segment_tokens", 1, CompactOptions::kMaxSegmentTokens,
                                   &request.segment_tokens));
  return request;
}

Result<uint64_t> ParseQuota(const Json& body) {
  if (!body.is_object() || !body.contains("quota_bytes")) {
    return Status::InvalidArgument("'quota_bytes' is missing, expected a number of bytes or null");
  }
  uint64_t bytes = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "quota_bytes", 1, INT64_MAX, &bytes));
  return bytes;
}

}  // namespace attndb::server
