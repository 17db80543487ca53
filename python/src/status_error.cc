#include "python/src/status_error.h"

#include <cstddef>

#include "python/src/path.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

void Translate(const std::exception_ptr& pointer, void* /*unused*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const StatusError& error) {
    const nb::object classes = nb::module_::import_("attndb._errors").attr("BY_CODE");
    const nb::object type = classes[static_cast<size_t>(error.status().code())];
    // A message names paths, which need not be UTF-8.
    PyErr_SetObject(type.ptr(), PathText(error.what()).ptr());
  }
}

}  // namespace

void BindStatusError(nb::module_& /*module*/) { nb::register_exception_translator(Translate); }

}  // namespace attndb::python
