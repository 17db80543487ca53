// Reads a workload from a trace: a file with a JSON object for each turn, one a line, in the order
// of their times.
//
//   {"time": 12.5, "conversation": "a", "new_tokens": 180, "answer_tokens": 420}
//
// Fields:  time: seconds, from any beginning; conversation: a text or an integer; new_tokens: those
//          of the prompt without history, and answer_tokens, each at least 1. Others are ignored,
//          and so are empty lines. The first turn of a conversation is the first line that names
//          it. A turn is replayed at its time, or when the turn before has been answered, if that
//          is later.
// Errors:  the file is hostile. kInvalidArgument names file and line, what was expected and what
//          was found; kNotFound, kIoError.
// Threads: pure function of the file.
#ifndef ATTNDB_SIMULATE_TRACE_H_
#define ATTNDB_SIMULATE_TRACE_H_

#include <cstdint>
#include <istream>
#include <string>

#include "attndb/result.h"
#include "simulate/workload.h"

namespace attndb::tier {

// What a conversation may come to.
struct TraceLimits {
  uint64_t kv_bytes_per_token = 0;
  uint64_t window_tokens = 0;
  uint64_t largest_tier_bytes = 0;  // 0: there are no tiers, and any size will do.
  uint64_t max_turns = 20'000'000;  // Some 100 bytes of memory each.
};

Result<Workload> ReadTrace(const std::string& path, const TraceLimits& limits);

// The same of a stream that is called `name` in messages.
Result<Workload> ReadTrace(std::istream& stream, const std::string& name,
                           const TraceLimits& limits);

}  // namespace attndb::tier

#endif  // ATTNDB_SIMULATE_TRACE_H_
