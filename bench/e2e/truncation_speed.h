// What it takes to drop half of a long session, and the token after it.
//
// Method:  sessions hold random rows: no value of K or V changes what time a pass takes. A drop is
//          timed on forks, which have tails of their own. The next token is timed in turn on a
//          session of 4,096 tokens that lost as many and on one that never had more.
// Units:   milliseconds.
// Threads: one thread, and the engine's.
// Errors:  of the engine and of Session.
#ifndef ATTNDB_BENCH_E2E_TRUNCATION_SPEED_H_
#define ATTNDB_BENCH_E2E_TRUNCATION_SPEED_H_

#include <cstddef>
#include <cstdint>

#include "attndb/db.h"
#include "attndb/result.h"
#include "bench/sample_stats.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

struct TruncationSpeed {
  uint64_t keep_first = 0;
  SampleStats drop;            // DropOldest.
  SampleStats next;            // The first token after it.
  SampleStats next_of_plain;   // A token after as many tokens that never were more.
  SampleStats next_unrotated;  // As next, of keys that are stored without RoPE.
  SampleStats ratio;           // next over next_of_plain, of one round.
};

Result<TruncationSpeed> MeasureTruncation(uint64_t keep_first, size_t rounds, const DB& db,
                                          llama::LlamaEngine* engine);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_TRUNCATION_SPEED_H_
