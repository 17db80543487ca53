// Rows of runs that are in memory whole: pinned layers of segments, and a tail.
//
// Errors:  none: the runs were verified before.
// Threads: constant between Reset and the next one; then shared by any number of threads.
#ifndef ATTNDB_STORAGE_KV_RESIDENT_ROWS_H_
#define ATTNDB_STORAGE_KV_RESIDENT_ROWS_H_

#include <cstddef>
#include <span>

#include "storage/kv/kv_layout.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/row_source.h"

namespace attndb::storage {

class ResidentRows final : public RowSource {
 public:
  // runs[h * num_runs + i]: run i of kv head h. They must outlive it.
  void Reset(std::span<const KvRows> runs, size_t num_runs, const LayerShape& shape, DType dtype) {
    runs_ = runs;
    num_runs_ = num_runs;
    const size_t k_elements = RowElements(shape.head_dim);
    const size_t v_elements = RowElements(shape.v_head_dim);
    k_format_ = {nullptr, k_elements, k_elements, dtype};
    v_format_ = {nullptr, v_elements, v_elements, dtype};
  }

  Status Acquire(RowLease* lease) const override {
    for (const RowRequest& request : lease->requests()) {
      const Strip& strip = request.strip;
      const KvRows& run = runs_[strip.kv_head * num_runs_ + strip.run];
      const bool keys = strip.part == RowPart::kKeys;
      kernels::RowsView rows = keys ? k_format_ : v_format_;
      rows.data = keys ? run.k : run.v;
      if (request.list != nullptr) {
        lease->PlaceList({rows, request.list});
      } else {
        lease->PlaceRange(kernels::RowsFrom(rows, request.first), request.count, 0);
      }
    }
    return Status::Ok();
  }

 private:
  std::span<const KvRows> runs_;
  size_t num_runs_ = 0;
  kernels::RowsView k_format_;
  kernels::RowsView v_format_;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_RESIDENT_ROWS_H_
