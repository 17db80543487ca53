// Dropped tokens of a session: tokens that it held and no longer attends to, for good.
//
// Tokens keep their indices. Kept tokens before the last gap stand directly in front of the tokens
// behind it: they move by the number of dropped tokens in between. The pieces between gaps are few,
// and each moves by its own number of positions.
//
//   tokens   0 1 2 3 | 4 ... 2047 | 2048 ... 4095        cut at 4096: [4, 2048) left
//   pieces   [0, 4), moved by 2044 positions             the rest stays where it is
//
// Threads: a value.
// Source:  [AS] 3.4. Some first tokens stay, moved, because without them the perplexity of SmolLM2
//          grows by two thirds (docs/truncation.md).
#ifndef ATTNDB_SESSION_TRUNCATION_H_
#define ATTNDB_SESSION_TRUNCATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/options.h"
#include "attndb/status.h"
#include "attndb/types.h"

namespace attndb::internal {

class Truncation {
 public:
  // The most pieces of a session: each takes a rotation of q in every call.
  static constexpr size_t kMaxPieces = 64;
  // The most cuts: the store keeps as many in a history (store/catalog/cut_bytes.h).
  static constexpr size_t kMaxCuts = 1024;

  Truncation() = default;
  // Takes the cuts of a stored history, which were checked.
  explicit Truncation(std::vector<Cut> cuts) : cuts_(std::move(cuts)) { FindPieces(); }

  const std::vector<Cut>& cuts() const { return cuts_; }
  uint64_t num_dropped() const { return num_dropped_; }
  // All tokens from this one on are kept.
  uint64_t end() const { return dropped_.empty() ? 0 : dropped_.back().end; }
  // The pieces, in order, and the number of positions that each moves.
  std::span<const TokenRange> pieces() const { return pieces_; }
  std::span<const int64_t> moves() const { return moves_; }
  // The number of moved tokens.
  uint64_t num_moved() const;

  // Calls f(range, turn) for each kept part of `tokens`, in order. turn is 1 + the index of its
  // piece, or 0 for tokens that do not move.
  template <typename F>
  void ForEachKept(TokenRange tokens, const F& f) const {
    const auto part = [&](TokenRange range, uint32_t turn) {
      const TokenRange kept = {std::max(tokens.begin, range.begin),
                               std::min(tokens.end, range.end)};
      if (kept.begin < kept.end) f(kept, turn);
    };
    for (uint32_t i = 0; i < pieces_.size(); ++i) part(pieces_[i], i + 1);
    part({end(), tokens.end}, 0);
  }

  // Drops n tokens of the session, which holds num_tokens: Session::DropOldest. Changes nothing if
  // it fails. Errors: kInvalidArgument; kResourceExhausted (more than kMaxPieces or kMaxCuts).
  Status Drop(uint64_t n, const DropOptions& options, uint64_t num_tokens);
  // Follows the session's Crop: tokens of later cuts come back.
  void Crop(uint64_t num_tokens);

 private:
  void FindPieces();

  std::vector<Cut> cuts_;            // `at` ascends.
  std::vector<TokenRange> dropped_;  // The tokens that all cuts dropped: in order, not adjacent.
  std::vector<TokenRange> pieces_;
  std::vector<int64_t> moves_;
  uint64_t num_dropped_ = 0;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_TRUNCATION_H_
