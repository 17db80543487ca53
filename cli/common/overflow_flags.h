// Options for a conversation that outgrows its model: --overflow, --keep-first and --window.
//
// Units:   tokens.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_OVERFLOW_FLAGS_H_
#define ATTNDB_CLI_COMMON_OVERFLOW_FLAGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attndb/session.h"
#include "attndb/types.h"
#include "cli/environment.h"
#include "cli/flags.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/window.h"

namespace attndb::cli {

class OverflowFlags {
 public:
  void AddTo(Flags* flags);

  const std::string& what() const { return overflow_; }
  // Errors: kInvalidArgument: --overflow is no such word.
  Status Check() const;
  // The window of a session with the prompt `tokens`, which is empty over several contexts, and
  // with the layout `text`.
  // Errors: kInvalidArgument (--window beyond the model's length; --keep-first beyond the rest); as
  //         the engine's Tokenize.
  Result<llama::WindowOptions> WindowOf(const llama::LlamaEngine& engine, const TextLayout& text,
                                        std::span<const TokenId> tokens) const;
  // With --overflow refuse, over several contexts, or if `always`: checks that the session,
  // `num_new` more tokens of its prompt and an answer of at most `max_answer` fit into the window.
  // Errors: kInvalidArgument, with both numbers.
  Status CheckFits(Environment* env, const llama::WindowOptions& window, const Session& session,
                   uint64_t num_new, uint64_t max_answer, bool always = false) const;

 private:
  static constexpr uint64_t kDefault = UINT64_MAX;

  std::string overflow_ = "truncate";
  uint64_t keep_first_ = kDefault;
  uint64_t window_tokens_ = kDefault;
};

// The tokens that left a session after its first `num_cuts` cuts, in order, as few ranges as hold
// them.
std::vector<TokenRange> DroppedSince(const Session& session, size_t num_cuts);

// [[4, 4100]].
Json ToJson(std::span<const TokenRange> dropped);
// The message about dropped tokens; "" if there are none. `num_in_front`: the tokens before the
// first dropped one.
std::string DroppedText(const llama::WindowOptions& window, std::span<const TokenRange> dropped,
                        uint64_t num_in_front);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_OVERFLOW_FLAGS_H_
