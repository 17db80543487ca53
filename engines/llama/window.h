// Sessions that outgrow the model's window: the oldest tokens leave, and the session goes on with
// the keys and values that it has.
//
// Method:  a session attends to window_tokens tokens at most. When it has as many and is to take
//          another, so many of the oldest after the first keep_first leave (Session::DropOldest)
//          that keep_ratio of the window is left. When that happens depends on the number of tokens
//          alone, not on how many come at once. What left is in Session::cuts().
//          Once tokens have left, llama.cpp is never given a position beyond the window: there the
//          model knows none, and llama.cpp's float32 angles grow inexact. The session turns what it
//          is given to where its tokens stand (Session::Rebase).
// Units:   tokens.
// Threads: stateless; as the session.
// Source:  [AS] 3.4 and 4.1, whose ratio is 0.5. Ours differs in that the first tokens may stay, as
//          an attention sink (Xiao et al. 2023, arXiv:2309.17453), and that keys are not computed
//          again: q is turned for those in front.
#ifndef ATTNDB_ENGINES_LLAMA_WINDOW_H_
#define ATTNDB_ENGINES_LLAMA_WINDOW_H_

#include <cstdint>

#include "attndb/result.h"
#include "attndb/session.h"

namespace attndb::llama {

struct WindowOptions {
  // Tokens that a session attends to at most: ModelInfo::max_context, or fewer. 0 = no limit.
  uint64_t window_tokens = 0;
  // Tokens in front that never leave, or as many of them as are still there: a system prompt. With
  // 0 the first token stays all the same (DropOptions::sink).
  uint64_t keep_first = 4;
  // Share of the window that is left when tokens leave, keep_first included. In (0, 1).
  double keep_ratio = 0.5;

  // Errors: kInvalidArgument: the share that is left does not have room for keep_first and a token
  // behind them, or is the whole window.
  Status Validate() const;
};

// Tokens of the window that the session takes: those that it attends to. Those of several contexts
// stand beside each other, and take as many as the longest.
uint64_t TokensOfWindow(const Session& session);

// The first tokens that the session still has: those before all that left.
uint64_t TokensInFront(const Session& session);

// Makes room in `session` for the next of `num_new` tokens, and says for how many of them: at least
// 1. To be called before each of the engine's passes until all have run.
// Errors: as WindowOptions::Validate, Session::DropOldest and Session::Rebase.
// REQUIRES: num_new > 0.
Result<uint64_t> MakeRoom(const WindowOptions& window, uint64_t num_new, Session* session);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_WINDOW_H_
