// What the process that is killed and the one that kills it agree on.
//
// A context's name says which tokens it has: "s.3.40" is the first 40 tokens of stream 3,
// "i.1.9000" an import of 9000 tokens of stream 1, "chat.2" grows along stream 2. So contexts of
// one stream share prefixes, and whoever reads a name knows what must be answered.
//
// Before each operation the worker writes a line "intent <operation> <name>", after it, in one
// block, what the store holds now. A block that did not come whole is no acknowledgement.
//
// Errors:  as DB's.
// Threads: thread-compatible.
#ifndef ATTNDB_TESTS_CRASH_KILL_PROTOCOL_H_
#define ATTNDB_TESTS_CRASH_KILL_PROTOCOL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/types.h"
#include "testing/toy_model.h"

namespace attndb::test {

inline constexpr uint64_t kNumStreams = 4;
inline constexpr uint64_t kMaxStreamTokens = 10000;

// Small, and of unequal layers.
ToyModel KillModel();
// The first tokens of a stream.
std::vector<TokenId> StreamTokens(uint64_t stream, uint64_t num_tokens);

// What one context holds and answers.
struct ContextState {
  uint64_t num_tokens = 0;
  bool pinned = false;
  std::string chain;    // Segments and how much of each is used: equal chains give equal bits.
  std::string outputs;  // SHA-256 of what a session on it answers.
  friend bool operator==(const ContextState&, const ContextState&) = default;
};
using StoreState = std::map<std::string, ContextState>;  // By name, or "#id".

// The stream that the context's tokens are the beginning of; nullopt if they are of none.
std::optional<uint64_t> StreamOf(const DB& db, const std::string& label);
// Also compares the outputs with float64: kInternal if they are wrong.
Result<ContextState> Observe(const DB& db, const ToyModel& model, const ContextInfo& info);
Result<StoreState> ObserveAll(const DB& db, const ToyModel& model);

struct Intent {
  std::string operation;
  std::string name;
};

// The two messages of the worker.
std::string IntentLine(const Intent& intent);
std::string StateBlock(const StoreState& state);

// What the killer read from the pipe.
struct WorkerReport {
  std::optional<StoreState> state;  // State in the last block that came whole.
  std::optional<Intent> intent;     // After it: what was under way.
  uint64_t num_begun = 0;           // Operations that it announced.
  uint64_t num_acknowledged = 0;
};
WorkerReport ParseWorkerReport(std::string_view text);

}  // namespace attndb::test

#endif  // ATTNDB_TESTS_CRASH_KILL_PROTOCOL_H_
