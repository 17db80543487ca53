#include "attndb/status.h"

#include <cstdio>
#include <cstdlib>

#include "attndb/result.h"

namespace attndb {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kAlreadyExists:
      return "already exists";
    case StatusCode::kFailedPrecondition:
      return "failed precondition";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kIoError:
      return "i/o error";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kBusy:
      return "busy";
    case StatusCode::kReadOnly:
      return "read-only";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kOtherModel:
      return "other model";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown status";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text(StatusCodeName(code_));
  text += ": ";
  text += message_;
  return text;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  std::string message(context);
  message += ": ";
  message += message_;
  return {code_, std::move(message)};
}

namespace internal {

void FailedResultAccess(const Status& status) {
  std::fprintf(stderr, "attndb: value of a failed Result read: %s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace internal
}  // namespace attndb
