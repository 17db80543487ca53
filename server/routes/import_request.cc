#include "server/routes/import_request.h"

#include <cstdint>

#include "attndb/context_name.h"
#include "engines/llama/utf8_bytes.h"

namespace attndb::server {
namespace {

// A text that is appended goes on in what is there: nothing of that is chosen anew.
Status CheckAppend(const Json& body) {
  for (const char* const name : {"system", "raw", "replace", "pinned", "ttl_seconds"}) {
    if (FindMember(body, name) == nullptr) continue;
    return Status::InvalidArgument("'" + std::string(name) + "' does not go with 'append'");
  }
  return Status::Ok();
}

}  // namespace

Status ReadTtl(const Json& body, std::optional<std::chrono::seconds>* ttl) {
  ttl->reset();
  if (FindMember(body, "ttl_seconds") == nullptr) return Status::Ok();
  uint64_t seconds = 0;
  ATTNDB_RETURN_IF_ERROR(ReadCount(body, "ttl_seconds", 0, INT32_MAX, &seconds));
  *ttl = std::chrono::seconds(seconds);
  return Status::Ok();
}

Result<ImportRequest> ParseImport(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  ImportRequest request;
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "name", &request.store.name));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "append", &request.append));
  if (request.append) {
    ATTNDB_RETURN_IF_ERROR(CheckAppend(body));
  } else {
    ATTNDB_RETURN_IF_ERROR(CheckContextName(request.store.name).WithContext("'name'"));
  }
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "text", &request.text));
  request.text.erase(0, request.text.size() - llama::WithoutBom(request.text).size());
  if (request.text.empty()) {
    return Status::InvalidArgument("'text' is missing or empty, expected what is to be stored");
  }
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "system", &request.system));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "raw", &request.raw));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "stream", &request.stream));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "dry_run", &request.dry_run));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "replace", &request.store.replace));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "pinned", &request.store.pin));
  ATTNDB_RETURN_IF_ERROR(ReadTtl(body, &request.store.ttl));
  return request;
}

}  // namespace attndb::server
