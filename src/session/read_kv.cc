// Session::ReadKv: copies stored rows into the caller's arrays.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/convert.h"
#include "kernels/layout.h"
#include "session/session_impl.h"
#include "session/strided_rows.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

constexpr uint64_t kBlockRows = 256;  // Rows brought to another layout or stride at a time.

// Writes stored rows of one array into the caller's view.
class RowCopier {
 public:
  // `rope` describes the view's rows; kInterleaved permutes. REQUIRES: `to` was checked.
  RowCopier(DType stored_dtype, const Rope& rope, const MutableTensorView& to)
      : stored_dtype_(stored_dtype),
        rope_(rope),
        to_(to),
        dim_(static_cast<size_t>(to.dim())),
        padded_(kernels::RowElements(dim_)) {}

  // `rows` go to `range` of the view.
  void Copy(const std::byte* rows, const HeadRange& range) {
    if (to_.data == nullptr) return;
    for (uint64_t done = 0; done < range.num_rows; done += kBlockRows) {
      const uint64_t count = std::min(kBlockRows, range.num_rows - done);
      CopyBlock(rows + done * padded_ * DTypeBytes(stored_dtype_),
                {range.head, range.first_row + done, count});
    }
  }

 private:
  void CopyBlock(const std::byte* rows, const HeadRange& range) {
    size_t stride = padded_;
    if (rope_.layout == RopeLayout::kInterleaved) {
      permuted_.resize(kBlockRows * dim_ * DTypeBytes(stored_dtype_));
      const size_t rope_dims = rope_.DimsOf(static_cast<uint32_t>(dim_));
      kernels::RopeToInterleaved(stored_dtype_, rows, padded_, permuted_.data(), dim_,
                                 range.num_rows, rope_dims, dim_);
      rows = permuted_.data();
      stride = dim_;
    }
    ScatterRows(stored_dtype_, rows, stride, to_, range, &scratch_);
  }

  const DType stored_dtype_;
  const Rope& rope_;
  const MutableTensorView& to_;
  const size_t dim_;
  const size_t padded_;
  std::vector<std::byte> permuted_;
  std::vector<std::byte> scratch_;
};

// Rows [first, first + num_rows) of a run, which are the view's from to_row on.
struct RunRange {
  uint32_t run = 0;
  uint64_t first = 0;
  uint64_t to_row = 0;
  uint64_t num_rows = 0;
};

// copiers: of keys and values.
Status CopyRun(const storage::RowSource& source, const RunRange& from, uint32_t num_kv_heads,
               std::span<RowCopier, 2> copiers) {
  storage::RowLease lease;
  lease.Reset(&source);
  for (uint32_t head = 0; head < num_kv_heads; ++head) {
    for (const auto part : {storage::RowPart::kKeys, storage::RowPart::kValues}) {
      lease.Request({from.run, head, part}, from.first, from.num_rows);
    }
  }
  ATTNDB_RETURN_IF_ERROR(lease.Read());
  uint64_t count = 0;
  for (size_t request = 0; request < lease.requests().size(); ++request) {
    const uint32_t head = lease.requests()[request].strip.kv_head;
    for (uint64_t row = 0; row < from.num_rows; row += count) {
      const kernels::RowsView rows = lease.Piece(request, row, &count);
      copiers[request % 2].Copy(static_cast<const std::byte*>(rows.data),
                                {head, from.to_row + row, count});
    }
  }
  return Status::Ok();
}

// The part of `range` that lies in tokens [begin, begin + num_tokens), empty if there is none.
TokenRange Overlap(TokenRange range, uint64_t begin, uint64_t num_tokens) {
  return {std::max(begin, range.begin), std::min(begin + num_tokens, range.end)};
}

}  // namespace

Status SessionImpl::CheckRead(LayerId layer, TokenRange range, const MutableTensorView& k,
                              const MutableTensorView& v) const {
  ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, spec_.num_layers()));
  ATTNDB_RETURN_IF_ERROR(CheckNotFailed());
  if (range.begin >= range.end || range.end > LayerTokens(layer)) {
    return Status::InvalidArgument(
        "layer " + std::to_string(layer) + ": tokens [" + std::to_string(range.begin) + ", " +
        std::to_string(range.end) + ") are asked for, but the layer holds [0, " +
        std::to_string(LayerTokens(layer)) + ")" + (range.begin == range.end ? "; none" : ""));
  }
  const LayerSpec& shape = spec_.layers[layer];
  OutputSource source = {"the range", static_cast<int64_t>(range.end - range.begin),
                         shape.num_kv_heads, shape.head_dim, spec_.kv_dtype};
  if (k.data != nullptr) ATTNDB_RETURN_IF_ERROR(CheckOutput("k", layer, k, source));
  source.dim = shape.v_head_dim;
  if (v.data != nullptr) ATTNDB_RETURN_IF_ERROR(CheckOutput("v", layer, v, source));
  return Status::Ok();
}

Status SessionImpl::ReadKv(LayerId layer, TokenRange range, const MutableTensorView& k,
                           const MutableTensorView& v) const {
  ATTNDB_RETURN_IF_ERROR(CheckRead(layer, range, k, v));
  const std::unique_ptr<storage::ChainSource> rows = parts_.make_rows();
  ListRuns(layer, rows.get());
  const Rope no_rope;
  RowCopier copiers[] = {{spec_.kv_dtype, spec_.layers[layer].rope, k},
                         {spec_.kv_dtype, no_rope, v}};
  uint64_t begin = 0;
  for (uint32_t run = 0; run < rows->run_tokens().size(); ++run) {
    const uint64_t first_row = FirstRow(run);
    const uint64_t num_tokens = rows->run_tokens()[run] - first_row;
    const TokenRange part = Overlap(range, begin, num_tokens);
    if (part.begin < part.end) {
      const RunRange from = {run, first_row + part.begin - begin, part.begin - range.begin,
                             part.end - part.begin};
      Status status = CopyRun(*rows, from, spec_.layers[layer].num_kv_heads, copiers);
      if (!status.ok()) {
        ReportFailure(rows.get());
        return status;
      }
    }
    begin += num_tokens;
  }
  return Status::Ok();
}

}  // namespace attndb::internal
