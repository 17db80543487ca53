// What a session has lost: tokens that it held and does not attend to any more, for good.
//
// Tokens keep their indices. What is kept of those before the last gap stands directly in front of
// what follows, so that it is moved on by the tokens that are gone: the pieces between gaps, which
// are few, each by another number of positions.
//
//   tokens   0 1 2 3 | 4 ... 2047 | 2048 ... 4095        cut at 4096: [4, 2048) left
//   pieces   [0, 4), moved by 2044 positions             the rest stays where it is
//
// Threads: a value.
// Source:  [AS] 3.4. Why some first tokens stay, moved: without them the perplexity of SmolLM2
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
  // Pieces that a session may have: each takes a turn of q in every call.
  static constexpr size_t kMaxPieces = 64;
  // Moments at which tokens left: histories of as many are stored (store/catalog/cut_bytes.h).
  static constexpr size_t kMaxCuts = 1024;

  Truncation() = default;
  // Cuts of a stored history, which were checked.
  explicit Truncation(std::vector<Cut> cuts) : cuts_(std::move(cuts)) { FindPieces(); }

  const std::vector<Cut>& cuts() const { return cuts_; }
  uint64_t num_dropped() const { return num_dropped_; }
  // Tokens from here on are all kept.
  uint64_t end() const { return dropped_.empty() ? 0 : dropped_.back().end; }
  // The pieces, in order, and by how many positions each is moved on.
  std::span<const TokenRange> pieces() const { return pieces_; }
  std::span<const int64_t> moves() const { return moves_; }
  // Tokens that are moved.
  uint64_t num_moved() const;

  // Calls f(range, turn) for each part of `tokens` that is kept, in order: turn is 1 + the index of
  // its piece, or 0 for what is not moved.
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

  // The session, which holds num_tokens, loses n tokens: Session::DropOldest. Changes nothing if it
  // fails. Errors: kInvalidArgument; kResourceExhausted (more than kMaxPieces or kMaxCuts).
  Status Drop(uint64_t n, const DropOptions& options, uint64_t num_tokens);
  // Follows the session's Crop: what left later comes back.
  void Crop(uint64_t num_tokens);

 private:
  void FindPieces();

  std::vector<Cut> cuts_;            // `at` ascends.
  std::vector<TokenRange> dropped_;  // What all cuts dropped: in order, not adjacent.
  std::vector<TokenRange> pieces_;
  std::vector<int64_t> moves_;
  uint64_t num_dropped_ = 0;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_TRUNCATION_H_
