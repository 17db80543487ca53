#include "python/src/status_error.h"

#include <cstddef>

namespace attndb::python {
namespace {

namespace nb = nanobind;

void Translate(const std::exception_ptr& pointer, void* /*unused*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const StatusError& error) {
    const nb::object classes = nb::module_::import_("attndb._errors").attr("BY_CODE");
    const nb::object type = classes[static_cast<size_t>(error.status().code())];
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace

void BindStatusError(nb::module_& /*module*/) { nb::register_exception_translator(Translate); }

}  // namespace attndb::python
