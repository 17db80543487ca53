// A Python callable (or None) as a progress function of the library.
//
// Threads: constructor, function() and Rethrow need the interpreter lock. The returned function
//          takes the lock itself.
#ifndef ATTNDB_PYTHON_SRC_PY_PROGRESS_H_
#define ATTNDB_PYTHON_SRC_PY_PROGRESS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace attndb::python {

// An exception of the callable cancels the call of the library. Rethrow raises the exception again.
class PyProgress {
 public:
  // `call` outlives this.
  explicit PyProgress(const nanobind::object& call) : call_(call) {}

  // Returns null for None. The function is valid as long as this object lives.
  std::function<bool(uint64_t, uint64_t)> function();
  void Rethrow();

 private:
  const nanobind::object& call_;
  std::optional<nanobind::python_error> error_;
};

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_PY_PROGRESS_H_
