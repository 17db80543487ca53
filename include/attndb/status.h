// Outcome of a call that can fail for a reason outside the program: bad input, a damaged file, a
// full disk. Programmer errors inside attndb end the process instead; absence is std::optional.
//
// Threads: a value; thread-compatible.
// Errors:  a message names the object, what was expected and what was found.
#ifndef ATTNDB_STATUS_H_
#define ATTNDB_STATUS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "attndb/export.h"
#include "attndb/require_cpp20.h"

namespace attndb {

// The numbers are part of the C ABI: never renumber.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,     // The caller's arguments are wrong, whatever the state of the store.
  kNotFound = 2,            // No such context, for this tenant.
  kAlreadyExists = 3,       // The name is taken.
  kFailedPrecondition = 4,  // Right call, wrong moment: layers of unequal length, a failed session.
  kCorruption = 5,          // Bytes on disk are not those that were stored. Never retried.
  kIoError = 6,             // The operating system refused or failed a read or write.
  kResourceExhausted = 7,   // Disk full, quota or memory limit reached.
  kUnsupported = 8,         // A feature, format version or model that this build can't honour.
  kBusy = 9,                // Another process writes to this store.
  kReadOnly = 10,           // A write on a store that was opened for reading.
  kCancelled = 11,          // The caller asked to stop.
  kInternal = 12,           // A broken invariant inside attndb: please report.
  kOtherModel = 13,         // The context was made by another model than the one that asks.
};

// "invalid argument", "not found", ...
ATTNDB_EXPORT std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] ATTNDB_EXPORT Status {
 public:
  Status() = default;  // Ok.
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  static Status InvalidArgument(std::string m) { return {StatusCode::kInvalidArgument, Move(m)}; }
  static Status NotFound(std::string m) { return {StatusCode::kNotFound, Move(m)}; }
  static Status AlreadyExists(std::string m) { return {StatusCode::kAlreadyExists, Move(m)}; }
  static Status FailedPrecondition(std::string m) {
    return {StatusCode::kFailedPrecondition, Move(m)};
  }
  static Status Corruption(std::string m) { return {StatusCode::kCorruption, Move(m)}; }
  static Status IoError(std::string m) { return {StatusCode::kIoError, Move(m)}; }
  static Status ResourceExhausted(std::string m) {
    return {StatusCode::kResourceExhausted, Move(m)};
  }
  static Status Unsupported(std::string m) { return {StatusCode::kUnsupported, Move(m)}; }
  static Status Busy(std::string m) { return {StatusCode::kBusy, Move(m)}; }
  static Status ReadOnly(std::string m) { return {StatusCode::kReadOnly, Move(m)}; }
  static Status Cancelled(std::string m) { return {StatusCode::kCancelled, Move(m)}; }
  static Status Internal(std::string m) { return {StatusCode::kInternal, Move(m)}; }
  static Status OtherModel(std::string m) { return {StatusCode::kOtherModel, Move(m)}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "ok", or "corruption: segment 12: ...".
  std::string ToString() const;

  // This status with "`context`: " before its message; Ok stays Ok.
  Status WithContext(std::string_view context) const;

  friend bool operator==(const Status& a, const Status& b) {
    return a.code_ == b.code_ && a.message_ == b.message_;
  }
  friend std::ostream& operator<<(std::ostream& os, const Status& s) { return os << s.ToString(); }

 private:
  static std::string Move(std::string& m) { return std::move(m); }

  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace attndb

#endif  // ATTNDB_STATUS_H_
