// A value, or the Status that says why there is none (std::expected is C++23).
//
//   Result<DB> db = DB::Open(path);
//   if (!db.ok()) return db.status();
//   db->List();
//
// Threads: a value; thread-compatible.
// Errors:  reading the value of a failed Result ends the process with the status on stderr.
#ifndef ATTNDB_RESULT_H_
#define ATTNDB_RESULT_H_

#include <optional>
#include <utility>

#include "attndb/export.h"
#include "attndb/status.h"

namespace attndb {

namespace internal {
// Prints the status and ends the process: the caller read a value that is not there.
[[noreturn]] ATTNDB_EXPORT void FailedResultAccess(const Status& status);
}  // namespace internal

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose.
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose. Not Ok.

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  T& value() & { return Checked(); }
  T value() && { return std::move(Checked()); }  // By value: `for (x : *db.List())` is safe.
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T& operator*() & { return Checked(); }
  T operator*() && { return std::move(Checked()); }
  const T& operator*() const& { return value(); }
  // The value stays in the Result: name it before a loop. `for (x : db.Find(..)->passages)` reads a
  // list that is gone.
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& Checked() {
    if (!value_.has_value()) internal::FailedResultAccess(status_);
    return *value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace attndb

#define ATTNDB_CONCAT_INNER_(a, b) a##b
#define ATTNDB_CONCAT_(a, b) ATTNDB_CONCAT_INNER_(a, b)

// Returns from the enclosing function if `expr` (a Status) failed.
#define ATTNDB_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    ::attndb::Status attndb_status_ = (expr);        \
    if (!attndb_status_.ok()) return attndb_status_; \
  } while (false)

// `decl` = the value of `expr` (a Result), or returns its status.
#define ATTNDB_ASSIGN_OR_RETURN(decl, expr) \
  ATTNDB_ASSIGN_OR_RETURN_IMPL_(ATTNDB_CONCAT_(attndb_result_, __LINE__), decl, expr)
#define ATTNDB_ASSIGN_OR_RETURN_IMPL_(result, decl, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) return std::move(result).status();    \
  decl = *std::move(result)

#endif  // ATTNDB_RESULT_H_
