// Searches of indexes whose keys lie in memory, where the runs' views say.
//
// Threads: stateless.
#ifndef ATTNDB_INDEX_KEY_SEARCH_TEST_UTIL_H_
#define ATTNDB_INDEX_KEY_SEARCH_TEST_UTIL_H_

#include <cstdint>
#include <vector>

#include "index/key_index.h"
#include "storage/kv/chain_rows.h"

namespace attndb::index::test {

// Like KeyIndex::Search of the first run's index. REQUIRES: rows of keys are padded and contiguous.
inline Status SearchInMemory(IndexCall call, void* scratch, FoundKeys* found, SearchCost* cost) {
  std::vector<IndexRun> runs(call.runs.begin(), call.runs.end());
  const auto dim = static_cast<uint32_t>(call.num_channels());
  storage::ChainRows rows;
  rows.Reset({.num_kv_heads = 1, .head_dim = dim, .v_head_dim = dim}, runs[0].keys.dtype);
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const auto* const keys = static_cast<const std::byte*>(runs[i].keys.data);
    const storage::KvRows head = {keys, keys, runs[i].index->num_keys()};
    rows.AddRun({&head, 1});
    runs[i].strip = {i, 0, storage::RowPart::kKeys};
  }
  storage::RowLease lease;
  lease.Reset(&rows);
  call.rows = &lease;
  call.runs = runs;
  return runs[0].index->Search(call, scratch, found, cost);
}

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_KEY_SEARCH_TEST_UTIL_H_
