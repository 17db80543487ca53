// Keys of layers that are stored as they were before RoPE (LayerShape::key_turns): turned to their
// positions as they are read, rounded to the stored type again.
//
// Shapes:  rows as kv_rows.h.
// Errors:  kResourceExhausted (memory for the copies).
// Threads: pure functions.
// Source:  [AS] 3.4, which embeds positions when it loads keys.
#ifndef ATTNDB_STORAGE_KV_TURNED_KEYS_H_
#define ATTNDB_STORAGE_KV_TURNED_KEYS_H_

#include <cstddef>
#include <cstdint>

#include "attndb/status.h"
#include "common/position_turns.h"
#include "kernels/layout.h"
#include "storage/kv/row_source.h"

namespace attndb::storage {

// Turns num_rows rows, the first of which stands at position `first`: `to` may be rows.data.
void TurnKeys(const PositionTurns& turns, const kernels::RowsView& rows, int64_t first,
              uint64_t num_rows, std::byte* to);

// Places rotated copies of the requested keys in memory of the lease. `rows` are the rows of the
// request's strip; row 0 is at position `first`.
Status PlaceTurnedKeys(const PositionTurns& turns, const RowRequest& request,
                       const kernels::RowsView& rows, int64_t first, RowLease* lease);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_TURNED_KEYS_H_
