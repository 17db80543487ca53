#include "python/src/simulate_binding.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/tiers.h"
#include "python/src/db_binding.h"
#include "python/src/path.h"
#include "python/src/py_progress.h"
#include "python/src/results.h"
#include "python/src/status_error.h"

namespace attndb::python {
namespace {

namespace nb = nanobind;

template <typename T>
T Get(const nb::dict& fields, const char* name) {
  return nb::cast<T>(fields[name]);
}

// `fields` has each option except progress, by name. attndb.simulate ensures this.
Dict SimulateFields(const Dict& fields, const nb::object& progress) {
  PyProgress py_progress(progress);
  const SimulateOptions options = {
      .model = Get<std::string>(fields, "model"),
      .kv_bytes_per_token = Get<uint64_t>(fields, "kv_bytes_per_token"),
      .window_tokens = Get<uint64_t>(fields, "window_tokens"),
      .prefill_tokens_per_second = Get<double>(fields, "prefill_tokens_per_second"),
      .decode_seconds = Get<double>(fields, "decode_seconds"),
      .num_gpus = Get<uint32_t>(fields, "num_gpus"),
      .trace = PathFrom(Get<nb::bytes>(fields, "trace")),
      .num_conversations = Get<uint64_t>(fields, "num_conversations"),
      .conversations_per_second = Get<double>(fields, "conversations_per_second"),
      .think_seconds = Get<double>(fields, "think_seconds"),
      .turn_tokens = Get<double>(fields, "turn_tokens"),
      .new_token_share = Get<double>(fields, "new_token_share"),
      .seed = Get<uint64_t>(fields, "seed"),
      .num_seeds = Get<uint32_t>(fields, "num_seeds"),
      .warm_up_share = Get<double>(fields, "warm_up_share"),
      .recompute_overflow = Get<bool>(fields, "recompute_overflow"),
      .memory_bytes = Get<std::vector<uint64_t>>(fields, "memory_bytes"),
      .disk_bytes = Get<std::vector<uint64_t>>(fields, "disk_bytes"),
      .disk_bytes_per_second = Get<double>(fields, "disk_bytes_per_second"),
      .policies = Get<std::vector<std::string>>(fields, "policies"),
      .bound = Get<bool>(fields, "bound"),
      .gpu_dollars = Get<double>(fields, "gpu_dollars"),
      .memory_gb_dollars = Get<double>(fields, "memory_gb_dollars"),
      .disk_gb_dollars = Get<double>(fields, "disk_gb_dollars"),
      .progress = py_progress.function()};
  Result<SimulateReport> report = Unlocked([&] { return Simulate(options); });
  py_progress.Rethrow();
  return ToDict(Unwrap(std::move(report)));
}

}  // namespace

void BindSimulate(nb::module_& module) {
  module.def("simulate", SimulateFields, nb::arg("fields"), nb::arg("progress").none());
}

}  // namespace attndb::python
