// What a context costs beside its KV: memory while a session uses it, bytes when it grows.
//
// Threads: one thread; nothing else in the process may allocate meanwhile.
// Errors:  of the engine and the store.
#ifndef ATTNDB_BENCH_E2E_STORAGE_COST_H_
#define ATTNDB_BENCH_E2E_STORAGE_COST_H_

#include <cstdint>
#include <span>
#include <string>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

struct StorageCost {
  uint64_t document_kv_bytes = 0;
  // Growth of the process's resident memory, the query sample included:
  uint64_t fresh_resident_bytes = 0;   // a session that has read the document,
  uint64_t stored_resident_bytes = 0;  // a session on the stored document that has attended to it.
  uint64_t num_new = 0;                // Tokens added to the stored document, then stored again:
  uint64_t new_kv_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t query_sample_bytes = 0;  // The sample's part of the written bytes.
  uint64_t merged_bytes = 0;        // Written again by merging; not in `written_bytes`.
};

// Stores the first `document` of `tokens` in a new store at `path`, opens it again, and adds the
// rest of `tokens`, the last of which is not run.
Result<StorageCost> MeasureStorageCost(llama::LlamaEngine* engine, const std::string& path,
                                       std::span<const TokenId> tokens, size_t document);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_STORAGE_COST_H_
