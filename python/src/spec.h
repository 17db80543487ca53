// attndb._spec.ModelSpec to and from the ModelSpec of the library.
//
// Threads: needs the interpreter lock.
#ifndef ATTNDB_PYTHON_SRC_SPEC_H_
#define ATTNDB_PYTHON_SRC_SPEC_H_

#include <nanobind/nanobind.h>

#include "attndb/types.h"

namespace attndb::python {

// Throws StatusError kInvalidArgument for a field that no ModelSpec can hold.
ModelSpec SpecFromPython(nanobind::handle spec);
nanobind::object SpecToPython(const ModelSpec& spec);

// Throws StatusError kInvalidArgument: not the name of a dtype.
DType DTypeFromPython(nanobind::handle name);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_SPEC_H_
