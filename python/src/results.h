// What the library reports, as dicts that attndb._results makes dataclasses of: one key a field.
//
// Threads: needs the interpreter lock.
#ifndef ATTNDB_PYTHON_SRC_RESULTS_H_
#define ATTNDB_PYTHON_SRC_RESULTS_H_

#include <nanobind/nanobind.h>

#include "attndb/stats.h"

namespace attndb::python {

nanobind::dict ToDict(const ContextInfo& info);
nanobind::dict ToDict(const LayerExplain& layer);
nanobind::dict ToDict(const Explain& explain);
nanobind::dict ToDict(const PrefixExplain& explain);
nanobind::dict ToDict(const VerifyReport& report);
nanobind::dict ToDict(const DBStats& stats);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_RESULTS_H_
