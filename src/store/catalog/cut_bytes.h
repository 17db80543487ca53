// The encoding of a cut (attndb/types.h) in the prefix index: the bytes of a node without tokens.
//
//   0xff · at · begin, end of each range                   numbers: u64, big-endian
//
// Token ids are not negative, so no block of tokens begins with 0xff.
//
// Errors:  kCorruption (bytes that EncodeCut does not write).
// Threads: pure functions.
// Source:  docs/formats/catalog.md, section 4.
#ifndef ATTNDB_STORE_CATALOG_CUT_BYTES_H_
#define ATTNDB_STORE_CATALOG_CUT_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::store {

// The most ranges of a cut: the kept tokens of a session are fewer pieces.
inline constexpr size_t kMaxCutRanges = 128;

// The most cuts of a history, as for a session: a lookup descends this deep.
inline constexpr size_t kMaxCuts = 1024;

// Whether a node's bytes are a cut, not tokens.
inline bool IsCut(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes.front() >= std::byte{0x80};
}
// REQUIRES: CheckCuts takes the cut.
std::vector<std::byte> EncodeCut(const Cut& cut);
Result<Cut> DecodeCut(std::span<const std::byte> bytes);

// Checks that these can be the cuts of a history of `num_tokens` tokens. There are at most
// kMaxCuts, and `at` ascends to at most num_tokens. Each cut drops something, in at most
// kMaxCutRanges ranges that are in order, not adjacent and below its `at`. No token is dropped
// twice, and there are at most kMaxCutRanges gaps in all.
// Errors: kInvalidArgument, which names the cut.
Status CheckCuts(std::span<const Cut> cuts, uint64_t num_tokens);

// Returns the cuts that K and V of the first num_tokens tokens depend on.
std::vector<Cut> CutsWithin(std::vector<Cut> cuts, uint64_t num_tokens);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CUT_BYTES_H_
