// The pieces of stored tokens that a prompt leaves out, where it says all the others.
//
// An agent drops reasoning, or clears an old tool's result, in the middle of its history. The
// prompt then says the stored tokens but for some pieces, and something new behind them.
//
//   stored   A A A x x x B B B y C C C
//   prompt   A A A       B B B   C C C n n n       left out: x x x, and y
//
// Method:  both are walked together, token by token. Where a token says something else than the
//          prompt, the walk looks for the next token behind it from which kLeastSame tokens say
//          what the prompt says. The tokens between are a piece that left. If there is none, the
//          walk tries again from up to kMostBack tokens before: the piece and what follows it may
//          begin alike. The kLeastSame tokens are then those that say more than the walk has
//          found. If there is none, the walk ends.
//          A piece that is replaced by other words is none that left: the walk ends there.
// Result:  the stored tokens up to the end of the walk, without the pieces, spell the beginning of
//          the prompt. The first token always stays, and kLeastSame tokens behind each piece do.
// Limits:  kMostPieces; kMostChecks comparisons of a token. The walk ends at either.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_LEFT_OUT_H_
#define ATTNDB_ENGINES_LLAMA_LEFT_OUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

inline constexpr size_t kLeastSame = 8;
inline constexpr size_t kMostBack = 8;
inline constexpr size_t kMostPieces = 64;  // Session::DropOldest takes so many.
inline constexpr uint64_t kMostChecks = 20'000'000;

// A byte of a text, or kControlSymbol and the id of a control token.
using TextSymbol = uint32_t;
inline constexpr TextSymbol kControlSymbol = 256;

// The symbols of tokens, one behind the other.
struct TokenSymbols {
  std::vector<TextSymbol> symbols;
  std::vector<size_t> ends;  // Where each token ends. One without symbols says nothing.

  void Add(std::span<const TextSymbol> token) {
    symbols.insert(symbols.end(), token.begin(), token.end());
    ends.push_back(symbols.size());
  }
};

// `adds_space`: a space in front of a text is the tokenizer's own.
// Returns the pieces, in order, as ranges of the stored tokens.
std::vector<TokenRange> LeftOut(const TokenSymbols& stored, std::span<const TextSymbol> prompt,
                                bool adds_space);

// LlamaEngine::LeftOut.
Result<std::vector<TokenRange>> LeftOutOfText(const Tokenizer& tokenizer,
                                              std::span<const TokenId> before,
                                              std::span<const PromptItem> items);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_LEFT_OUT_H_
