// The session that a question is answered on: over one stored context, or over several.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_ASKED_SESSION_H_
#define ATTNDB_CLI_COMMON_ASKED_SESSION_H_

#include <string>
#include <vector>

#include "attndb/db.h"
#include "cli/common/overflow_flags.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

struct AskedSession {
  Session session;
  std::vector<TokenId> rest;  // The tokens to run: the question, in the contexts' layout.
  // All tokens of the context and `rest`; empty if there are several contexts.
  std::vector<TokenId> prompt;
  llama::WindowOptions window;  // The window that the session runs in.
};

// A question, and the flags that say how it is answered.
struct Asked {
  std::string question;
  std::string plan;
  OverflowFlags overflow;
  // The session holds all of the stored context, with its cuts: --tokens counts these tokens.
  bool is_whole = false;
};

// Errors: kInvalidArgument (several contexts: one is a dialogue, or their layouts differ); as
//         OverflowFlags::WindowOf, DB::CreateSession and DB::CreateSessionOver; kCancelled (a
//         signal while the question is tokenized).
Result<AskedSession> StartAsking(Environment* env, const llama::LlamaEngine& engine, const DB& db,
                                 const std::vector<std::string>& contexts, const Asked& asked);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_ASKED_SESSION_H_
