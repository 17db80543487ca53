// attndb._core.simulate.
//
// Threads: any.
#ifndef ATTNDB_PYTHON_SRC_SIMULATE_BINDING_H_
#define ATTNDB_PYTHON_SRC_SIMULATE_BINDING_H_

#include <nanobind/nanobind.h>

namespace attndb::python {

// REQUIRES: BindStatusError was called.
void BindSimulate(nanobind::module_& module);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_SIMULATE_BINDING_H_
