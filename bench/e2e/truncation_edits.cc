#include "bench/e2e/truncation_edits.h"

#include <cstddef>
#include <string>
#include <utility>

#include "bench/e2e/likelihood.h"
#include "engines/llama/window.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kBehindLate = 64;

// The session that goes on without the pieces of `tokens`, all of which `full` has run.
Result<Session> Edit(EditWay way, std::span<const TokenRange> pieces,
                     std::span<const TokenId> tokens, const DB& db, llama::LlamaEngine* engine,
                     const Session& full) {
  ATTNDB_ASSIGN_OR_RETURN(Session session, full.Fork());
  if (way == EditWay::kFull) return session;
  if (way == EditWay::kCut) {
    ATTNDB_RETURN_IF_ERROR(llama::LeaveOut(pieces, &session));
    return session;
  }
  std::vector<TokenId> kept;
  uint64_t begin = 0;
  for (const TokenRange& piece : pieces) {
    kept.insert(kept.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                tokens.begin() + static_cast<std::ptrdiff_t>(piece.begin));
    begin = piece.end;
  }
  kept.insert(kept.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end());
  ATTNDB_ASSIGN_OR_RETURN(Session again, EmptySession(Way::kRecompute, db, *engine));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(again, kept));
  return again;
}

// Mean of `after` but its first token, which the session has not run.
Result<double> Score(std::span<const TokenId> after, Session& session, llama::LlamaEngine* engine) {
  const size_t num_scored = after.size() - 1;
  double nll = 0;
  llama::PrefillOptions options;
  options.on_logits = [&](uint64_t index, std::span<const float> logits) {
    nll += NegativeLogLikelihood(logits, after[index + 1]) / static_cast<double>(num_scored);
  };
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, after.first(num_scored), options));
  return nll;
}

}  // namespace

std::string_view EditWayName(EditWay way) {
  switch (way) {
    case EditWay::kFull:
      return "full";
    case EditWay::kRunAgain:
      return "run_again";
    case EditWay::kCut:
      return "cut";
  }
  return "unknown";
}

std::string_view PiecesName(Pieces pieces) { return pieces == Pieces::kEarly ? "early" : "late"; }

std::vector<TokenRange> PiecesOf(Pieces pieces, const Window& window) {
  const uint64_t half = window.tokens / 2;
  if (pieces == Pieces::kLate) return {{half - kBehindLate, window.tokens - kBehindLate}};
  std::vector<TokenRange> early;
  const uint64_t part = half / 8;
  for (uint64_t i = 1; i < 8; i += 2) early.push_back({i * part, (i + 1) * part});
  return early;
}

Result<std::array<EditScores, kPieces.size()>> ScoreEdits(const Window& window,
                                                          std::span<const TokenId> document,
                                                          uint64_t begin, uint64_t num_scored,
                                                          const DB& db,
                                                          llama::LlamaEngine* engine) {
  const uint64_t num_tokens = begin + window.tokens + num_scored + 1;
  if (document.size() < num_tokens) {
    return Status::InvalidArgument("the document has " + std::to_string(document.size()) +
                                   " tokens, expected " + std::to_string(num_tokens));
  }
  const std::span<const TokenId> tokens = document.subspan(begin, window.tokens);
  const std::span<const TokenId> after = document.subspan(begin + window.tokens, num_scored + 1);
  ATTNDB_ASSIGN_OR_RETURN(Session full, EmptySession(Way::kFull, db, *engine));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(full, tokens));
  std::array<EditScores, kPieces.size()> nll = {};
  for (size_t p = 0; p < kPieces.size(); ++p) {
    for (size_t w = 0; w < kEditWays.size(); ++w) {
      if (p > 0 && kEditWays[w] == EditWay::kFull) {  // No pieces leave.
        nll[p][w] = nll[0][w];
        continue;
      }
      ATTNDB_ASSIGN_OR_RETURN(Session session, Edit(kEditWays[w], PiecesOf(kPieces[p], window),
                                                    tokens, db, engine, full));
      ATTNDB_ASSIGN_OR_RETURN(nll[p][w], Score(after, session, engine));
    }
  }
  return nll;
}

Result<std::array<std::vector<bool>, kEditWays.size()>> AskEditedCodes(const CodeText& text,
                                                                       const Window& window,
                                                                       const DB& db,
                                                                       llama::LlamaEngine* engine) {
  ATTNDB_ASSIGN_OR_RETURN(Session full, EmptySession(Way::kFull, db, *engine));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(full, text.tokens));
  std::array<std::vector<bool>, kEditWays.size()> said;
  for (size_t i = 0; i < kEditWays.size(); ++i) {
    ATTNDB_ASSIGN_OR_RETURN(Session session, Edit(kEditWays[i], PiecesOf(Pieces::kEarly, window),
                                                  text.tokens, db, engine, full));
    ATTNDB_ASSIGN_OR_RETURN(said[i], AskCodesOf(text, session, engine));
  }
  return said;
}

}  // namespace attndb::bench
