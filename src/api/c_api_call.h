// What every function of the C ABI does: no exception leaves it, its error becomes a code and this
// thread's last message, and what it gives is the caller's to free.
//
// Threads: thread-safe; the last error is one of each thread.
#ifndef ATTNDB_API_C_API_CALL_H_
#define ATTNDB_API_C_API_CALL_H_

#include <cstddef>
#include <exception>
#include <new>
#include <string>

#include "attndb/c_api.h"
#include "attndb/db.h"
#include "attndb/session.h"
#include "attndb/status.h"

struct attndb_db {
  attndb::DB db;
};

struct attndb_session {
  attndb::Session session;
};

namespace attndb::internal {

struct LastError {
  attndb_code code = ATTNDB_OK;
  std::string message;
};
LastError& ThreadsLastError();

// Keeps it as this thread's last error.
attndb_code Record(StatusCode code, std::string message) noexcept;

// Runs `body` (a Status()) and turns what it says, or throws, into a code and the last error.
template <typename Body>
attndb_code Call(Body&& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return ATTNDB_OK;
    return Record(status.code(), status.message());
  } catch (const std::bad_alloc&) {
    return Record(StatusCode::kResourceExhausted, "memory");  // Short: fits without allocation.
  } catch (const std::exception& e) {
    try {
      return Record(StatusCode::kInternal, std::string("exception: ") + e.what());
    } catch (...) {
      return Record(StatusCode::kInternal, "exception");
    }
  } catch (...) {
    return Record(StatusCode::kInternal, "exception");
  }
}

// Errors: kInvalidArgument naming the argument.
Status NotNull(const void* pointer, const char* name);

// malloc'ed copies, so that attndb_free is one function for all. Errors: kResourceExhausted.
Status CopyOut(const void* data, size_t num_bytes, void** out);
Status TextOut(const std::string& text, char** out);

}  // namespace attndb::internal

#endif  // ATTNDB_API_C_API_CALL_H_
