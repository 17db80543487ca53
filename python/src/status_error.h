// Failures as Python exceptions. A thrown Status becomes the class of attndb._errors that its code
// names.
//
// Threads: throwing a StatusError needs no interpreter lock. Its translation runs under the lock.
#ifndef ATTNDB_PYTHON_SRC_STATUS_ERROR_H_
#define ATTNDB_PYTHON_SRC_STATUS_ERROR_H_

#include <nanobind/nanobind.h>

#include <exception>
#include <utility>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::python {

class StatusError : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

// Throws StatusError unless `status` is Ok.
inline void ThrowIfError(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}

// The value, or throws StatusError.
template <typename T>
T Unwrap(Result<T> result) {
  if (!result.ok()) throw StatusError(std::move(result).status());
  return *std::move(result);
}

// Makes StatusError known to `module`.
void BindStatusError(nanobind::module_& module);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_STATUS_ERROR_H_
