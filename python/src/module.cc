// attndb._core: the public headers, one to one. Python programs use python/attndb instead.
#include <nanobind/nanobind.h>

#include "attndb/version.h"
#include "python/src/db_binding.h"
#include "python/src/kv_file_binding.h"
#include "python/src/session_binding.h"
#include "python/src/simulate_binding.h"
#include "python/src/status_error.h"

NB_MODULE(_core, module) {
  // A program may leave sessions open at the interpreter's end, without a warning.
  nanobind::set_leak_warnings(false);
  attndb::python::BindStatusError(module);
  attndb::python::BindSession(module);
  attndb::python::BindDb(module);
  attndb::python::BindKvFile(module);
  attndb::python::BindSimulate(module);
  module.def("version", attndb::Version);
  module.def("kernel_isa", attndb::KernelIsa);
}
