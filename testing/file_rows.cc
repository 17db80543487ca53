#include "testing/file_rows.h"

#include <cstring>
#include <numeric>
#include <utility>

namespace attndb::test {

using storage::RowLease;
using storage::RowRequest;

void RowCounts::Add(const Row& row) {
  MutexLock lock(&mutex_);
  rows_.insert(row);
}

std::set<RowCounts::Row> RowCounts::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(rows_, {});
}

void FileRows::Reset(const storage::LayerShape& shape, DType dtype) {
  formats_ = storage::RowFormats(shape, dtype);
  segments_.clear();
  run_tokens_.clear();
  tail_.Reset(shape, dtype);
  MutexLock lock(&mutex_);
  copies_.clear();
  failure_.reset();
}

void FileRows::AddSegment(storage::Segment* segment, LayerId layer, uint64_t num_tokens) {
  segments_.push_back({segment, layer});
  run_tokens_.push_back(num_tokens);
}

void FileRows::AddTail(const storage::KvTail& tail, LayerId layer, int64_t first_position) {
  tail_.AddTail(tail, layer, first_position);
  run_tokens_.insert(run_tokens_.end(), tail_.run_tokens().begin(), tail_.run_tokens().end());
}

Status FileRows::Acquire(RowLease* lease) const {
  Copies copies;
  for (const RowRequest& request : lease->requests()) {
    if (request.strip.run >= segments_.size()) {
      PlaceTail(request, lease);
      continue;
    }
    kernels::RowsView rows = formats_.At(request.strip.part, nullptr);
    const uint64_t num_bytes = request.count * rows.num_elements * DTypeBytes(rows.dtype);
    copies.buffers.push_back(*AlignedBuffer::Allocate(num_bytes));
    ATTNDB_RETURN_IF_ERROR(ReadRequest(request, copies.buffers.back().data()));
    rows.data = copies.buffers.back().data();
    if (request.list == nullptr) {
      lease->PlaceRange(rows, request.count, 0);
    } else {
      copies.lists.push_back(std::make_unique<uint32_t[]>(request.count));
      std::iota(copies.lists.back().get(), copies.lists.back().get() + request.count, 0u);
      lease->PlaceList({rows, copies.lists.back().get()});
    }
  }
  MutexLock lock(&mutex_);
  copies_[lease] = std::move(copies);
  return Status::Ok();
}

Status FileRows::ReadRequest(const RowRequest& request, std::byte* to) const {
  const auto& [run, kv_head, part] = request.strip;
  const kernels::RowsView format = formats_.At(part, nullptr);
  const size_t row_bytes = format.num_elements * DTypeBytes(format.dtype);
  for (uint64_t i = 0; i < request.count; ++i) {
    const uint64_t row = request.list == nullptr ? request.first + i : request.list[i];
    const SegmentRun& from = segments_[run];
    Result<storage::HeadRows> rows =
        from.segment->ReadRows(from.layer, kv_head, part, {row, row + 1});
    if (!rows.ok()) {
      MutexLock lock(&mutex_);
      if (!failure_) failure_ = {from.segment, rows.status()};
      return std::move(rows).status();
    }
    std::memcpy(to + i * row_bytes, rows->data(), row_bytes);
    counts_->Add({run, kv_head, part, row});
  }
  return Status::Ok();
}

// They lie in memory, each run in one place.
void FileRows::PlaceTail(const RowRequest& request, RowLease* lease) const {
  storage::Strip strip = request.strip;
  strip.run -= static_cast<uint32_t>(segments_.size());
  RowLease from;
  from.Reset(&tail_);
  uint64_t num_rows = 0;
  if (request.list == nullptr) {
    from.Request(strip, request.first, request.count);
    ATTNDB_CHECK(from.Read().ok());
    lease->PlaceRange(from.Piece(0, 0, &num_rows), request.count, 0);
  } else {
    from.RequestListed(strip, request.list, request.count);
    ATTNDB_CHECK(from.Read().ok());
    lease->PlaceList(from.Listed(0));
  }
}

std::optional<storage::ChainSource::Failure> FileRows::TakeFailure() {
  MutexLock lock(&mutex_);
  return std::exchange(failure_, std::nullopt);
}

}  // namespace attndb::test
