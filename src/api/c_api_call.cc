#include "api/c_api_call.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace attndb::internal {

LastError& ThreadsLastError() {
  thread_local LastError error;
  return error;
}

attndb_code Record(StatusCode code, std::string message) noexcept {
  LastError& error = ThreadsLastError();
  error.code = static_cast<attndb_code>(code);
  error.message = std::move(message);
  return error.code;
}

Status NotNull(const void* pointer, const char* name) {
  if (pointer != nullptr) return Status();
  return Status::InvalidArgument(std::string(name) + " is NULL");
}

Status CopyOut(const void* data, size_t num_bytes, void** out) {
  void* const copy = std::malloc(num_bytes == 0 ? 1 : num_bytes);
  if (copy == nullptr) return Status::ResourceExhausted("no memory for the result");
  if (num_bytes != 0) std::memcpy(copy, data, num_bytes);
  *out = copy;
  return Status();
}

Status TextOut(const std::string& text, char** out) {
  void* copy = nullptr;
  ATTNDB_RETURN_IF_ERROR(CopyOut(text.c_str(), text.size() + 1, &copy));
  *out = static_cast<char*>(copy);
  return Status();
}

Status SessionOut(Session session, attndb_session** out) {
  *out = std::make_unique<attndb_session>(attndb_session{std::move(session)}).release();
  return Status();
}

}  // namespace attndb::internal
