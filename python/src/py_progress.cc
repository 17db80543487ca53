#include "python/src/py_progress.h"

#include <utility>

namespace attndb::python {

namespace nb = nanobind;

std::function<bool(uint64_t, uint64_t)> PyProgress::function() {
  if (call_.is_none()) return nullptr;
  return [this](uint64_t done, uint64_t total) {
    const nb::gil_scoped_acquire locked;
    try {
      return !call_(done, total).is(nb::bool_(false));
    } catch (nb::python_error& raised) {
      error_.emplace(std::move(raised));
      return false;
    }
  };
}

void PyProgress::Rethrow() {
  if (error_.has_value()) throw nb::python_error(std::move(*error_));
}

}  // namespace attndb::python
