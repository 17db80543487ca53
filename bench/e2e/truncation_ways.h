// What may be done with a session that has filled the model's window: ours, and what it is compared
// with.
//
// Units:   tokens.
// Errors:  of the engine and of Session.
// Threads: one thread.
// Source:  [AS] 4.3.4 and Table 1, which compares token truncation (TT), its own way (CA) and naive
//          truncation of the KV cache (NKVT).
#ifndef ATTNDB_BENCH_E2E_TRUNCATION_WAYS_H_
#define ATTNDB_BENCH_E2E_TRUNCATION_WAYS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/db.h"
#include "attndb/result.h"
#include "attndb/session.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

enum class Way : uint8_t {
  kFull,       // Nothing leaves: text that the model can hold.
  kRecompute,  // TT: a new session, in which the last tokens are run again.
  kNoSink,     // [AS] as published: keys and values stay as they are, no token stays in front.
  kSink,       // Ours, as Session::DropOldest does by default: the first token stays.
  kKeep4,      // Ours, as the engine does by default: the first 4 stay.
  kKeep16,     // Ours, with 16.
  kUnrotated,  // As kKeep4, of keys that are stored as they were before RoPE ([AS] 3.4).
  kNaive,      // NKVT: rotated keys stay as they are, new tokens are numbered from their number.
};
std::string_view WayName(Way way);

// Those that can follow a stream of any length.
inline constexpr std::array kTruncations = {Way::kRecompute, Way::kNoSink, Way::kSink,
                                            Way::kKeep4,     Way::kKeep16, Way::kUnrotated,
                                            Way::kNaive};

struct Window {
  uint64_t tokens = 2048;  // Tokens that are attended to at most.
  uint64_t left = 1024;    // Tokens that are left when some leave: [AS] 4.1's ratio, 0.5.
};

// A session that holds nothing, for what a way begins with.
Result<Session> EmptySession(Way way, const DB& db, const llama::LlamaEngine& engine);

// The session that goes on after `full`, which attends to window.tokens tokens, the last ones of
// `tokens` among them. The one that is given attends to window.left tokens, and the engine runs the
// next at that position; with kFull it is `full` itself.
Result<Session> Truncate(Way way, const Window& window, const DB& db, llama::LlamaEngine* engine,
                         std::span<const TokenId> tokens, Session full);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_TRUNCATION_WAYS_H_
