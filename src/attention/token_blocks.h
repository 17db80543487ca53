// Blocks of tokens: the grid on which attention to all of a context's tokens is summed.
//
// A block is folded into its own states, tile by tile, and the states of blocks are merged in
// order. A token's index in its context determines its block and tile. So the result of a q row
// does not depend, bit by bit, on how its prompt is cut into calls, on concurrent calls, on the
// number of threads, or on where K and V lie.
//
// Threads: pure functions.
#ifndef ATTNDB_ATTENTION_TOKEN_BLOCKS_H_
#define ATTNDB_ATTENTION_TOKEN_BLOCKS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "attndb/types.h"
#include "kernels/layout.h"

namespace attndb::attention {

inline constexpr uint64_t kTileTokens = kernels::kKeysPerTile;
constexpr uint64_t TileEnd(uint64_t token) { return (token / kTileTokens + 1) * kTileTokens; }

inline constexpr uint64_t kMinBlockTokens = 512;
static_assert(kMinBlockTokens % kTileTokens == 0);

// The blocks of a layer. If a token sees all tokens before it, blocks grow with their number. A
// unit of work then has at most a few hundred blocks, whose states are kept if threads share the
// unit. A window has a few of the shortest blocks.
class TokenBlocks {
 public:
  // Blocks from a power of 2 tokens to the next, where they are longer than the shortest.
  static constexpr uint64_t kPerOctave = 32;

  TokenBlocks() = default;
  explicit constexpr TokenBlocks(const LayerSpec& spec) : grow_(spec.sliding_window == 0) {}

  // The number of a token's block: 0, 1, ... in the order of tokens.
  constexpr uint64_t Of(uint64_t token) const {
    const uint64_t size = SizeAt(token);
    const auto octave =
        static_cast<uint64_t>(std::countr_zero(size) - std::countr_zero(kMinBlockTokens));
    return octave * kPerOctave + token / size;
  }
  // The begin of the token's block, and the begin of the next one.
  constexpr uint64_t BeginAt(uint64_t token) const { return token / SizeAt(token) * SizeAt(token); }
  constexpr uint64_t EndAt(uint64_t token) const { return BeginAt(token) + SizeAt(token); }
  // The first begin of a block that is not before the token.
  constexpr uint64_t NextBegin(uint64_t token) const {
    return BeginAt(token) == token ? token : EndAt(token);
  }
  // How many blocks the tokens touch.
  constexpr uint64_t Count(TokenRange tokens) const {
    return tokens.begin == tokens.end ? 0 : Of(tokens.end - 1) - Of(tokens.begin) + 1;
  }

 private:
  constexpr uint64_t SizeAt(uint64_t token) const {
    return grow_ ? std::max(kMinBlockTokens, std::bit_floor(token) / kPerOctave) : kMinBlockTokens;
  }

  bool grow_ = true;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_TOKEN_BLOCKS_H_
