// Paths between Python and C++. The system's paths are bytes, and need not be UTF-8: Python has
// them as `bytes`, or as `str` with surrogates for bytes that are no UTF-8 (PEP 383).
//
// Threads: under the interpreter lock.
#ifndef ATTNDB_PYTHON_SRC_PATH_H_
#define ATTNDB_PYTHON_SRC_PATH_H_

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace attndb::python {

// Returns the bytes of os.fsencode(path).
std::string PathFrom(const nanobind::bytes& path);

// Returns a str that os.fsencode turns back into the same bytes.
nanobind::object PathText(std::string_view path);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_PATH_H_
