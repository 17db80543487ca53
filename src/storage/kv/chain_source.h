// A source of the rows of one layer of a chain: sealed segments, then a tail. Which one sessions
// read through is their host's choice: layers that stay in memory (chain_rows.h), or others.
//
//   rows->Reset(shape, dtype);
//   rows->AddSegment(segment, layer, num_tokens);  // Run 0,
//   rows->AddTail(tail, layer);                    // ... and those that follow.
//   ... leases read ...
//   rows->Reset(shape, dtype);                     // Lets go of what was read.
//
// Errors:  those of reading a segment. The first is kept, with its segment: TakeFailure.
// Threads: leases may be read by any number of threads; all else by one, while nobody reads.
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

// How keys and values of a layer lie: rows one after another, padded. Where, `data` says.
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

  // Forgets all runs, and lets go of what it read.
  virtual void Reset(const LayerShape& shape, DType dtype) = 0;
  // The segment's first tokens. `segment` must outlive the run. REQUIRES: it has as many.
  virtual void AddSegment(Segment* segment, LayerId layer, uint64_t num_tokens) = 0;
  // The runs of a layer of the tail, as they are now.
  virtual void AddTail(const KvTail& tail, LayerId layer) = 0;

  // By run.
  virtual std::span<const uint64_t> run_tokens() const = 0;
  // Brings all of the runs into memory, if that is where they are read. Errors: as reading them.
  virtual Status BringAll() = 0;
  // Of the first segment that could not be read since Reset; it is told once.
  virtual std::optional<Failure> TakeFailure() = 0;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_CHAIN_SOURCE_H_
