// How a cut (attndb/types.h) stands in the prefix index: as the bytes of a node that has no tokens.
//
//   0xff · at · begin, end of each range                   numbers: u64, big-endian
//
// Ids of tokens are not negative, so that no block of tokens begins with 0xff.
//
// Errors:  kCorruption (no bytes that EncodeCut writes).
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

// Ranges that a cut may have: what a session keeps stands in fewer pieces.
inline constexpr size_t kMaxCutRanges = 128;

// Cuts that a history may have, as a session does: a lookup goes as deep.
inline constexpr size_t kMaxCuts = 1024;

// Whether a node's bytes are those of a cut, and not of tokens.
inline bool IsCut(std::span<const std::byte> bytes) {
  return !bytes.empty() && bytes.front() >= std::byte{0x80};
}
// REQUIRES: a cut that CheckCuts takes.
std::vector<std::byte> EncodeCut(const Cut& cut);
Result<Cut> DecodeCut(std::span<const std::byte> bytes);

// Ok if these may be the cuts of a history of so many tokens: at most kMaxCuts; `at` ascends and is
// at most num_tokens; each drops something, in at most kMaxCutRanges ranges that are in order, not
// adjacent and below its `at`; nothing is dropped twice, and there are no more gaps in all.
// Errors: kInvalidArgument, which names the cut.
Status CheckCuts(std::span<const Cut> cuts, uint64_t num_tokens);

// Those of the cuts that K and V of the first num_tokens tokens depend on.
std::vector<Cut> CutsWithin(std::vector<Cut> cuts, uint64_t num_tokens);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_CUT_BYTES_H_
