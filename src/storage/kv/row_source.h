// Rows of a chain's runs, brought into memory on request. It separates the readers of K and V from
// the places where K and V lie.
//
//   lease.Reset(&source);
//   const size_t keys = lease.Request({run, kv_head, RowPart::kKeys}, first, count);
//   const size_t values = lease.RequestListed({run, kv_head, RowPart::kValues}, list, num_listed);
//   ATTNDB_RETURN_IF_ERROR(lease.Read());
//   ... lease.Piece(keys, from, &num_rows) ... lease.Listed(values) ...
//
// All rows of a phase are requested in one call: gathering 1,000 rows takes 15 to 35 us, and 1,000
// calls would take more than that.
//
// Pieces:  a range may lie in several places. A piece ends where the range ends, or at a multiple
//          of kPieceRows rows after its begin, whatever the source is. Kernels fold that many rows
//          at a time, so that results do not depend on the source, bit by bit.
// Parking: while rows are being read, a source may let the thread do other work of its call. The
//          frames that requested the rows stay on the stack until that work is done and the rows
//          are there.
// Errors:  those of the source; a row is visible only after its verification.
// Threads: a source is thread-safe and outlives its leases; a lease belongs to one thread.
#ifndef ATTNDB_STORAGE_KV_ROW_SOURCE_H_
#define ATTNDB_STORAGE_KV_ROW_SOURCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"
#include "common/aligned_buffer.h"
#include "common/check.h"
#include "kernels/layout.h"
#include "storage/kv/kv_rows.h"

namespace attndb::storage {

// The keys or the values of one kv head in one run of the chain.
struct Strip {
  uint32_t run = 0;
  uint32_t kv_head = 0;
  RowPart part = RowPart::kKeys;
};

struct RowRequest {
  Strip strip;
  uint64_t first = 0;  // First row, for a range.
  uint64_t count = 0;
  const uint32_t* list = nullptr;  // Rows of the strip, for a list; null for a range.
};

// The place of a request's rows: row i of the request is row list[i] of `rows`.
struct ListedRows {
  kernels::RowsView rows;
  const uint32_t* list = nullptr;
};

class RowSource;

// Work that a thread can do while rows are being read.
class OtherWork {
 public:
  virtual ~OtherWork() = default;
  // Does one piece of work; false: there is none. The work's owner gets its errors.
  virtual bool TakeSome() = 0;
};

// The rows that one worker asks for in one phase. A lease is reused: it allocates nothing once
// grown, unless its source does.
class RowLease {
 public:
  static constexpr uint64_t kPieceRows = 64;

  // Lets go of the rows that it holds, and reads from `source` from now on. `other_work` may be
  // null.
  void Reset(const RowSource* source, OtherWork* other_work = nullptr) {
    source_ = source;
    other_work_ = other_work;
    Clear();
  }
  // Forgets its requests.
  void Clear() {
    requests_.clear();
    places_.clear();
    num_rooms_ = 0;
  }

  // Adds a request for `count` rows from `first` on, or for the rows of a list. Returns the
  // request's number: 0, 1, ... since Clear.
  size_t Request(const Strip& strip, uint64_t first, uint64_t count) {
    requests_.push_back({.strip = strip, .first = first, .count = count});
    return requests_.size() - 1;
  }
  // `list` must live as long as the rows are read.
  size_t RequestListed(const Strip& strip, const uint32_t* list, uint64_t count) {
    requests_.push_back({.strip = strip, .count = count, .list = list});
    return requests_.size() - 1;
  }

  // Brings all rows that were asked for into memory. May wait for the disk.
  Status Read();
  // Like RowSource::Resident.
  const void* Resident(const Strip& strip) const;

  std::span<const RowRequest> requests() const { return requests_; }
  // The longest piece of a range from its row `from` on, and how many rows it has.
  kernels::RowsView Piece(size_t request, uint64_t from, uint64_t* num_rows) const {
    const Place& place = places_[request];
    const uint64_t number = from / place.piece_rows;
    const uint64_t skipped = from - number * place.piece_rows;
    *num_rows = std::min(place.piece_rows - skipped, requests_[request].count - from);
    kernels::RowsView rows = place.rows;
    rows.data = static_cast<const std::byte*>(rows.data) + number * place.piece_bytes;
    return kernels::RowsFrom(rows, skipped);
  }
  ListedRows Listed(size_t request) const { return {places_[request].rows, places_[request].list}; }

  // --- For sources. ---

  // Work for the thread that reads; null: it waits.
  OtherWork* other_work() const { return other_work_; }

  // These two say where the rows of the next request lie, in the order of requests.

  // A range lies in pieces of `piece_rows`, each piece_bytes after the one before.
  // REQUIRES: piece_rows is a multiple of kPieceRows, or the whole range is one piece.
  void PlaceRange(const kernels::RowsView& rows, uint64_t piece_rows, uint64_t piece_bytes) {
    places_.push_back({rows, nullptr, piece_rows, piece_bytes});
  }
  void PlaceList(const ListedRows& listed) { places_.push_back({listed.rows, listed.list, 1, 0}); }

  // Aligned memory for rows that the source makes, until the lease is cleared or read again.
  // Errors: kResourceExhausted.
  Result<std::byte*> MakeRoom(uint64_t num_bytes);

 private:
  struct Place {
    kernels::RowsView rows;
    const uint32_t* list = nullptr;
    uint64_t piece_rows = 0;
    uint64_t piece_bytes = 0;
  };

  const RowSource* source_ = nullptr;
  OtherWork* other_work_ = nullptr;
  std::vector<RowRequest> requests_;
  std::vector<Place> places_;
  std::vector<AlignedBuffer> rooms_;  // The first num_rooms_ are in use.
  size_t num_rooms_ = 0;
};

class RowSource {
 public:
  virtual ~RowSource() = default;

  // Makes the rows of all requests of the lease readable, and says where they are. They stay until
  // the lease is cleared or read again.
  virtual Status Acquire(RowLease* lease) const = 0;

  // Whether Acquire does other work meanwhile: then the caller needs scratch for that work, too.
  virtual bool parks() const { return false; }

  // The address of row 0 of a strip, if all of its rows are in memory, else null. Only for
  // prefetches: a row may be read only while a lease holds it.
  virtual const void* Resident(const Strip& /*strip*/) const { return nullptr; }
};

inline Status RowLease::Read() {
  num_rooms_ = 0;
  return source_->Acquire(this);
}

inline Result<std::byte*> RowLease::MakeRoom(uint64_t num_bytes) {
  if (num_rooms_ == rooms_.size()) rooms_.emplace_back();
  AlignedBuffer& room = rooms_[num_rooms_];
  if (room.size() < num_bytes) {
    ATTNDB_ASSIGN_OR_RETURN(room, AlignedBuffer::Allocate(num_bytes));
  }
  ++num_rooms_;
  return room.data();
}

inline const void* RowLease::Resident(const Strip& strip) const { return source_->Resident(strip); }

// Calls f(k, v, from, num_rows) for the pieces of two ranges of equal length, in order.
template <typename F>
void ForEachPiece(const RowLease& lease, size_t keys, size_t values, const F& f) {
  const uint64_t count = lease.requests()[keys].count;
  for (uint64_t from = 0; from < count;) {
    uint64_t num_keys = 0;
    uint64_t num_values = 0;
    const kernels::RowsView k = lease.Piece(keys, from, &num_keys);
    const kernels::RowsView v = lease.Piece(values, from, &num_values);
    const uint64_t num_rows = std::min(num_keys, num_values);
    f(k, v, from, num_rows);
    from += num_rows;
  }
}

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_ROW_SOURCE_H_
