// Pieces that leave in the middle of a text: how well is what follows predicted, and are codes
// behind the pieces still said?
//
// Method:  a window full of a document has run. Some pieces leave: by DropOldest, or by running the
//          rest again. Then more of the document runs and is scored, or codes are asked for
//          (truncation_codes.h). With `full` nothing leaves.
// Units:   negative log-likelihood in nats a token, in float64.
// Threads: one thread.
// Errors:  of the engine and of Session; kInvalidArgument (the document is too short).
#ifndef ATTNDB_BENCH_E2E_TRUNCATION_EDITS_H_
#define ATTNDB_BENCH_E2E_TRUNCATION_EDITS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/db.h"
#include "attndb/result.h"
#include "bench/e2e/truncation_codes.h"
#include "bench/e2e/truncation_ways.h"
#include "engines/llama/llama_engine.h"

namespace attndb::bench {

enum class EditWay : uint8_t { kFull, kRunAgain, kCut };
inline constexpr std::array kEditWays = {EditWay::kFull, EditWay::kRunAgain, EditWay::kCut};
std::string_view EditWayName(EditWay way);

enum class Pieces : uint8_t {
  kEarly,  // Four pieces in the first half of the window, a quarter of it together.
  kLate,   // One piece, half of the window, in front of its last 64 tokens.
};
std::vector<TokenRange> PiecesOf(Pieces pieces, const Window& window);

inline constexpr std::array kPieces = {Pieces::kEarly, Pieces::kLate};
std::string_view PiecesName(Pieces pieces);

using EditScores = std::array<double, kEditWays.size()>;  // One for each way.

// The mean of the `num_scored` tokens behind the window that begins at token `begin`, for each kind
// of pieces and each way. The window runs once.
Result<std::array<EditScores, kPieces.size()>> ScoreEdits(const Window& window,
                                                          std::span<const TokenId> document,
                                                          uint64_t begin, uint64_t num_scored,
                                                          const DB& db, llama::LlamaEngine* engine);

// Whether each code was said, for each way, behind early pieces.
Result<std::array<std::vector<bool>, kEditWays.size()>> AskEditedCodes(const CodeText& text,
                                                                       const Window& window,
                                                                       const DB& db,
                                                                       llama::LlamaEngine* engine);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_E2E_TRUNCATION_EDITS_H_
