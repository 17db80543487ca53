// Sessions that outgrow the model's window: the oldest tokens leave, and the session goes on with
// the keys and values that it has.
//
// Interface: WindowOptions and MakeRoom, in llama_engine.h.
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
#include <span>
#include <vector>

#include "attndb/db.h"
#include "attndb/session.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

// Tokens of the window that the session takes: those that it attends to. Those of several contexts
// stand beside each other, and take as many as the longest.
uint64_t TokensOfWindow(const Session& session);

// The first tokens that the session still has: those before all that left.
uint64_t TokensInFront(const Session& session);

// Returns the keep_first of a window for which nobody names one: the tokens of the system message,
// unless they leave little room for the rest; then, and without a system message, as few as
// WindowOptions has. `num_system`: those of the system message; 0: there is none.
uint64_t UsualKeepFirst(uint64_t num_system, uint64_t window_tokens);

// A prompt behind tokens of a session. Some of these it leaves out: left_out.h.
struct PromptSize {
  uint64_t num_tokens = 0;               // Without those that it leaves out.
  std::span<const TokenRange> left_out;  // In order. Not owned.
};

// How many tokens the ranges have.
uint64_t NumTokensOf(std::span<const TokenRange> ranges);

// Returns the tokens that left a session as pieces of its text: LeaveOut. They are those of
// TextLayout::left_out that a cut dropped, as ranges in order. `text`: the layout of the session's
// tokens. The text keeps all other tokens that a cut dropped: they fell out of a window.
std::vector<TokenRange> PiecesOf(std::span<const Cut> cuts, const TextLayout& text);

// The tokens that a session has lost.
struct LostTokens {
  std::span<const Cut> cuts;           // Session::cuts. Not owned.
  std::span<const TokenRange> pieces;  // PiecesOf. Not owned.
};

// How many of the first `num_tokens` tokens of a session a prompt may go on from in this window.
// Tokens that have left, and that the prompt has, have to be run again in two cases. The result is
// then the number of tokens before the first such cut.
//   - An earlier, smaller window dropped them, and this window has room for them.
//   - They left as pieces of the text.
uint64_t ReusableTokens(const WindowOptions& window, const LostTokens& lost, uint64_t num_tokens,
                        const PromptSize& prompt);

// Does what DB::CreateSession does, for a session that runs in this window. The session reuses
// ReusableTokens. `prompt` has the tokens that it leaves out.
Result<SessionStart> CreateSessionIn(const WindowOptions& window, const DB& db,
                                     const ModelSpec& spec, std::span<const TokenId> prompt,
                                     SessionOptions options,
                                     std::span<const TokenRange> left_out = {});

// Drops these tokens, as far as the session still attends to them: Session::DropOldest. Nothing is
// run again. REQUIRES: a range, and none begins at token 0.
// Errors: kInvalidArgument (the session has no token behind them); as Session::DropOldest.
Status LeaveOut(std::span<const TokenRange> left_out, Session* session);

// Leaves the first `num_tokens` tokens of the session. Tokens that had left it since are back, and
// the next token has the position that it has without a cut. Errors: as Session::Crop and Rebase.
Status CropTo(uint64_t num_tokens, Session* session);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_WINDOW_H_
