#include "storage/kv/turned_keys.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "attndb/result.h"
#include "kernels/convert.h"
#include "storage/kv/kv_layout.h"

namespace attndb::storage {
namespace {

// Rows that are turned at a time.
constexpr uint64_t kChunk = 8;
using Chunk = std::array<float, kChunk * 2 * PositionTurns::kMaxPairs>;

size_t BytesOfRow(const kernels::RowsView& rows) {
  return rows.num_elements * DTypeBytes(rows.dtype);
}

// Writes `count` rows to `to`, in the type of `format`. turn(from, some, chunk) gives rows [from,
// from + some) as they are to be, in float32. It has read them when they are written, so that `to`
// may be where they were.
template <typename Turn>
void TurnInChunks(const kernels::RowsView& format, uint64_t count, const Turn& turn,
                  std::byte* to) {
  const size_t width = format.num_elements;
  Chunk chunk;
  for (uint64_t from = 0; from < count; from += kChunk) {
    const uint64_t some = std::min(kChunk, count - from);
    turn(from, some, chunk.data());
    kernels::ConvertRows(DType::kFloat32, chunk.data(), width, format.dtype,
                         to + from * BytesOfRow(format), width, some, width, width);
  }
}

void TurnListed(const PositionTurns& turns, const kernels::RowsView& rows, int64_t first,
                std::span<const uint32_t> list, std::byte* to) {
  const auto turn = [&](uint64_t from, uint64_t some, float* chunk) {
    const std::span<const uint32_t> part = list.subspan(from, some);
    for (size_t i = 0; i < some; ++i) {
      kernels::LoadRows(rows, part[i], 1, chunk + i * rows.num_elements);
    }
    turns.On(first, part, rows.num_elements, chunk);
  };
  TurnInChunks(rows, list.size(), turn, to);
}

}  // namespace

void TurnKeys(const PositionTurns& turns, const kernels::RowsView& rows, int64_t first,
              uint64_t num_rows, std::byte* to) {
  const auto turn = [&](uint64_t from, uint64_t some, float* chunk) {
    kernels::LoadRows(rows, from, some, chunk);
    turns.On(first + static_cast<int64_t>(from), some, rows.num_elements, chunk);
  };
  TurnInChunks(rows, num_rows, turn, to);
}

Status PlaceTurnedKeys(const PositionTurns& turns, const RowRequest& request,
                       const kernels::RowsView& rows, int64_t first, RowLease* lease) {
  const uint64_t row_bytes = request.count * BytesOfRow(rows);
  const bool listed = request.list != nullptr;
  ATTNDB_ASSIGN_OR_RETURN(
      std::byte* const room,
      lease->MakeRoom(row_bytes + (listed ? request.count * sizeof(uint32_t) : 0)));
  kernels::RowsView turned = rows;
  turned.data = room;
  turned.stride = rows.num_elements;
  if (!listed) {
    TurnKeys(turns, kernels::RowsFrom(rows, request.first),
             first + static_cast<int64_t>(request.first), request.count, room);
    lease->PlaceRange(turned, request.count, 0);
    return Status::Ok();
  }
  TurnListed(turns, rows, first, {request.list, request.count}, room);
  auto* const places = reinterpret_cast<uint32_t*>(room + row_bytes);
  std::iota(places, places + request.count, 0U);
  lease->PlaceList({turned, places});
  return Status::Ok();
}

}  // namespace attndb::storage
