// A Python program's type of queries and indexes, as attndb sees it. attndb._custom converts the
// arguments and the results to arrays.
//
// Threads: any, also attndb's own. Calls take the interpreter lock, and wait for it under no lock
//          of attndb's. Any thread may destroy objects, perhaps under such a lock. The next call
//          that has the interpreter lock then releases the Python references of these objects.
#ifndef ATTNDB_PYTHON_SRC_CUSTOM_BINDING_H_
#define ATTNDB_PYTHON_SRC_CUSTOM_BINDING_H_

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <vector>

#include "attndb/custom_index.h"

namespace attndb::python {

// name, min, max, whole, fallback.
using PyCustomKey = std::tuple<std::string, double, double, bool, double>;
// name, keys, and an attndb._custom.Adapter.
using PyCustomType = std::tuple<std::string, std::vector<PyCustomKey>, nanobind::object>;

std::vector<CustomIndexType> ToCustomIndexes(const std::vector<PyCustomType>& types);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_CUSTOM_BINDING_H_
