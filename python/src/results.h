// The library's reports as dicts, one key per field. attndb._results makes dataclasses of them.
//
// Threads: needs the interpreter lock.
#ifndef ATTNDB_PYTHON_SRC_RESULTS_H_
#define ATTNDB_PYTHON_SRC_RESULTS_H_

#include <nanobind/nanobind.h>

#include "attndb/find.h"
#include "attndb/stats.h"
#include "attndb/tiers.h"

namespace attndb::python {

using Dict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;

Dict ToDict(const ContextInfo& info);
Dict ToDict(const LayerExplain& layer);
Dict ToDict(const SessionContext& context);
// Makes the form that cuts have in Python: [(at, [(begin, end), ..]), ..].
using CutList = std::vector<std::pair<uint64_t, std::vector<std::pair<uint64_t, uint64_t>>>>;
std::vector<Cut> CutsFromPython(const CutList& list);
CutList ToList(const std::vector<Cut>& cuts);
Dict ToDict(const Explain& explain);
Dict ToDict(const MachineProfile& machine);
Dict ToDict(const PrefixExplain& explain);
Dict ToDict(const RoomReport& report);
Dict ToDict(const VerifyReport& report);
Dict ToDict(const BuildReport& report);
Dict ToDict(const FindResult& found);
Dict ToDict(const DBStats& stats);
Dict ToDict(const SimulateReport& report);

}  // namespace attndb::python

#endif  // ATTNDB_PYTHON_SRC_RESULTS_H_
