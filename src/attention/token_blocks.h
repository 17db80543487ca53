// Blocks of tokens: the grid on which attention to all of a context's tokens is summed.
//
// A block is folded into states of its own, tile by tile, and the states of blocks are merged in
// order. Blocks and tiles lie where a token's number in its context says, so that what a q row
// gets does not depend, bit by bit, on how its prompt is cut into calls, on the calls beside it, on
// the number of threads, or on where K and V lie.
//
// Blocks grow with the tokens before them, so that a unit of work has some hundred of them at most:
// their states are kept where threads share a unit.
// Threads: pure functions.
#ifndef ATTNDB_ATTENTION_TOKEN_BLOCKS_H_
#define ATTNDB_ATTENTION_TOKEN_BLOCKS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/layout.h"

namespace attndb::attention {

inline constexpr uint64_t kMinBlockTokens = 512;
// Blocks from a power of 2 tokens to the next, where they are longer than the shortest.
inline constexpr uint64_t kBlocksPerOctave = 32;
inline constexpr uint64_t kTileTokens = kernels::kKeysPerTile;
static_assert(kMinBlockTokens % kTileTokens == 0);

// Tokens of the block of a token.
constexpr uint64_t BlockTokens(uint64_t token) {
  return std::max(kMinBlockTokens, std::bit_floor(token) / kBlocksPerOctave);
}
// The first token of its block, and that of the next one.
constexpr uint64_t BlockBegin(uint64_t token) {
  return token / BlockTokens(token) * BlockTokens(token);
}
constexpr uint64_t BlockEnd(uint64_t token) { return BlockBegin(token) + BlockTokens(token); }
// The number of a token's block: 0, 1, ... in the order of tokens.
constexpr uint64_t BlockOf(uint64_t token) {
  const uint64_t size = BlockTokens(token);
  const auto octave =
      static_cast<uint64_t>(std::countr_zero(size) - std::countr_zero(kMinBlockTokens));
  return octave * kBlocksPerOctave + token / size;
}
// The first begin of a block that is not before the token.
constexpr uint64_t NextBlockBegin(uint64_t token) {
  return BlockBegin(token) == token ? token : BlockEnd(token);
}

constexpr uint64_t TileEnd(uint64_t token) { return (token / kTileTokens + 1) * kTileTokens; }

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_TOKEN_BLOCKS_H_
