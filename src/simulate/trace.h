// Reads a workload from a trace: a file with one JSON object per turn and line, in the order of
// time.
//
//   {"time": 12.5, "conversation": "a", "new_tokens": 180, "answer_tokens": 420}
//
// Fields:  time: seconds, from any beginning; conversation: a text or an integer; new_tokens:
//          tokens of the prompt without history; answer_tokens; both at least 1. Other fields and
//          empty lines are ignored. The first line that names a conversation is its first turn. A
//          turn is replayed at its time, or when the previous turn has been answered, whichever is
//          later.
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

// Limits of a conversation.
struct TraceLimits {
  uint64_t kv_bytes_per_token = 0;
  uint64_t window_tokens = 0;
  uint64_t largest_tier_bytes = 0;  // 0: there are no tiers, and any size is allowed.
  uint64_t max_turns = 20'000'000;  // About 100 bytes of memory each.
};

Result<Workload> ReadTrace(const std::string& path, const TraceLimits& limits);

// Does the same for a stream that messages call `name`.
Result<Workload> ReadTrace(std::istream& stream, const std::string& name,
                           const TraceLimits& limits);

}  // namespace attndb::tier

#endif  // ATTNDB_SIMULATE_TRACE_H_
