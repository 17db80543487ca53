// A source of the rows of one layer of a chain: sealed segments, then a tail. A session's host
// chooses the source: layers that stay in memory (chain_rows.h), or another.
//
//   rows->Reset(shape, dtype);
//   rows->AddSegment(segment, layer, num_tokens);  // Adds run 0.
//   rows->AddTail(tail, layer, first_position);    // Adds the runs that follow.
//   ... leases read ...
//   rows->Reset(shape, dtype);                     // Releases the rows.
//
// Errors:  those of reading a segment. The first one is kept, with its segment: TakeFailure.
// Threads: any number of threads may read leases. All other calls come from one thread, while no
//          thread reads.
#ifndef ATTNDB_STORAGE_KV_CHAIN_SOURCE_H_
#define ATTNDB_STORAGE_KV_CHAIN_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "attndb/status.h"
#include "attndb/types.h"
#include "kernels/layout.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/kv_tail.h"
#include "storage/kv/row_source.h"
#include "storage/kv/segment.h"

namespace attndb::storage {

// How keys and values of a layer lie: rows one after another, padded. At() adds where.
struct RowFormats {
  RowFormats() = default;
  RowFormats(const LayerShape& shape, DType dtype)
      : keys(FormatOf(shape.head_dim, dtype)), values(FormatOf(shape.v_head_dim, dtype)) {}

  kernels::RowsView At(RowPart part, const std::byte* data) const {
    kernels::RowsView rows = part == RowPart::kKeys ? keys : values;
    rows.data = data;
    return rows;
  }

  kernels::RowsView keys;
  kernels::RowsView values;

 private:
  static kernels::RowsView FormatOf(uint32_t dim, DType dtype) {
    const size_t num_elements = kernels::RowElements(dim);
    return {nullptr, num_elements, num_elements, dtype};
  }
};

class ChainSource : public RowSource {
 public:
  struct Failure {
    const Segment* segment = nullptr;
    Status status;
  };

  // Forgets all runs and releases their rows.
  virtual void Reset(const LayerShape& shape, DType dtype) = 0;
  // Adds the first `num_tokens` tokens of a segment as one run. `segment` must outlive the run.
  // REQUIRES: it has as many tokens.
  virtual void AddSegment(Segment* segment, LayerId layer, uint64_t num_tokens) = 0;
  // Adds the tail's present rows of a layer, as one run or several. first_position: of its first
  // token.
  virtual void AddTail(const KvTail& tail, LayerId layer, int64_t first_position) = 0;

  // Number of tokens of each run.
  virtual std::span<const uint64_t> run_tokens() const = 0;
  // Reads all of a run into memory, if the source keeps runs there. Errors: those of reading.
  virtual Status BringRun(uint32_t run) = 0;
  // The first segment since Reset that could not be read, with the error. Each failure is returned
  // once.
  virtual std::optional<Failure> TakeFailure() = 0;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_CHAIN_SOURCE_H_
