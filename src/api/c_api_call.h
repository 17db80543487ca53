// Shared by all functions of the C ABI. No exception leaves them, an error becomes a code and this
// thread's last message, and the caller frees results.
//
// Threads: thread-safe; each thread has a last error of its own.
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

struct attndb_pending_store {
  attndb::PendingStore store;
};

namespace attndb::internal {

struct LastError {
  attndb_code code = ATTNDB_OK;
  std::string message;
};
LastError& ThreadsLastError();

// Keeps code and message as this thread's last error. Returns the code.
attndb_code Record(StatusCode code, std::string message) noexcept;

// Runs `body`, which returns a Status, and turns the status or an exception into a code and the
// last error.
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

// Copies into malloc'ed memory, so that attndb_free serves all results. Errors: kResourceExhausted.
Status CopyOut(const void* data, size_t num_bytes, void** out);
Status TextOut(const std::string& text, char** out);

// Puts the session into a handle that the caller owns; C can't hold a unique_ptr.
Status SessionOut(Session session, attndb_session** out);

}  // namespace attndb::internal

#endif  // ATTNDB_API_C_API_CALL_H_
