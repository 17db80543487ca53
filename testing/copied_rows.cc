#include "testing/copied_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace attndb::test {

using kernels::RowsView;
using storage::RowLease;
using storage::RowRequest;

namespace {

constexpr uint64_t kGapBytes = 4 * kBufferAlignment;  // NaN bytes after each piece.
constexpr int kNaNByte = 0xff;                        // 0xff bytes are NaN in every element type.

size_t RowBytes(const RowsView& rows) { return rows.num_elements * DTypeBytes(rows.dtype); }

const std::byte* RowOf(const RowsView& rows, uint64_t row) {
  return static_cast<const std::byte*>(kernels::RowsFrom(rows, row).data);
}

// The rows close together, and NaN after them.
RowsView Packed(const RowsView& like, std::byte* data) {
  RowsView rows = like;
  rows.data = data;
  rows.stride = like.num_elements;
  return rows;
}

AlignedBuffer NaNBuffer(uint64_t num_bytes) {
  AlignedBuffer buffer = *AlignedBuffer::Allocate(num_bytes);
  std::memset(buffer.data(), kNaNByte, buffer.size());
  return buffer;
}

}  // namespace

void CopiedRows::Reset(const storage::RowSource* base) {
  MutexLock lock(&mutex_);
  base_ = base;
  copies_.clear();
  keys_.clear();
  values_.clear();
}

void CopiedRows::Note(const RowRequest& request) const {
  const storage::Strip& strip = request.strip;
  Asked& asked = strip.part == storage::RowPart::kKeys ? keys_ : values_;
  for (uint64_t i = 0; i < request.count; ++i) {
    const uint64_t row = request.list == nullptr ? request.first + i : request.list[i];
    asked.insert({strip.run, strip.kv_head, row});
  }
}

Status CopiedRows::Acquire(RowLease* lease) const {
  RowLease from;
  from.Reset(base_);
  for (const RowRequest& request : lease->requests()) {
    if (request.list != nullptr) {
      from.RequestListed(request.strip, request.list, request.count);
    } else {
      from.Request(request.strip, request.first, request.count);
    }
  }
  ATTNDB_RETURN_IF_ERROR(from.Read());
  Copies copies;
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < lease->requests().size(); ++i) {
    Note(lease->requests()[i]);
    if (lease->requests()[i].list != nullptr) {
      CopyList(from, i, lease, &copies);
    } else {
      CopyRange(from, i, lease, &copies);
    }
  }
  copies_[lease] = std::move(copies);
  return Status::Ok();
}

void CopiedRows::CopyList(const RowLease& from, size_t number, RowLease* lease, Copies* copies) {
  const uint64_t count = from.requests()[number].count;
  const storage::ListedRows listed = from.Listed(number);
  const size_t row_bytes = RowBytes(listed.rows);
  copies->buffers.push_back(NaNBuffer(count * row_bytes + kGapBytes));
  std::byte* const data = copies->buffers.back().data();
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(data + i * row_bytes, RowOf(listed.rows, listed.list[i]), row_bytes);
  }
  copies->lists.push_back(std::make_unique<uint32_t[]>(count));
  uint32_t* const list = copies->lists.back().get();
  std::iota(list, list + count, 0u);
  lease->PlaceList({Packed(listed.rows, data), list});
}

void CopiedRows::CopyRange(const RowLease& from, size_t number, RowLease* lease, Copies* copies) {
  const RowRequest& request = lease->requests()[number];
  constexpr uint64_t kRows = RowLease::kPieceRows;
  uint64_t num_rows = 0;
  const RowsView like = from.Piece(number, 0, &num_rows);
  const size_t row_bytes = RowBytes(like);
  const uint64_t piece_bytes = kRows * row_bytes + kGapBytes;
  copies->buffers.push_back(NaNBuffer((request.count / kRows + 1) * piece_bytes));
  std::byte* const data = copies->buffers.back().data();
  for (uint64_t row = 0; row < request.count; ++row) {
    std::byte* const to = data + row / kRows * piece_bytes + row % kRows * row_bytes;
    std::memcpy(to, from.Piece(number, row, &num_rows).data, row_bytes);
  }
  lease->PlaceRange(Packed(like, data), kRows, piece_bytes);
}

CopiedRows::Asked CopiedRows::asked(storage::RowPart part) const {
  MutexLock lock(&mutex_);
  return part == storage::RowPart::kKeys ? keys_ : values_;
}

}  // namespace attndb::test
