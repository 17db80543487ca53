#include "python/src/path.h"

namespace attndb::python {

std::string PathFrom(const nanobind::bytes& path) { return {path.c_str(), path.size()}; }

nanobind::object PathText(std::string_view path) {
  return nanobind::steal(
      PyUnicode_DecodeUTF8(path.data(), static_cast<Py_ssize_t>(path.size()), "surrogateescape"));
}

}  // namespace attndb::python
