// A type of queries and indexes that a Python program wrote, as attndb sees it. What it is called
// with and what it answers are made into arrays by attndb._custom.
//
// Threads: any, of attndb too: calls take the interpreter lock, and wait for it under no lock of
//          attndb's. Objects go in any thread, perhaps under such a lock: what they held is let go
//          of by the next call that has the interpreter lock.
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
