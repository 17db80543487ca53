// Representatives of blocks: the keys of a block that later queries attended to most.
//
// Chosen:  a key's representative score is the mean of q.k over the sampled queries of the
//          kLocalTokens tokens behind it, of all q heads of the group; the keys of largest score
//          represent their block. Keys that no sampled query follows represent nothing, unless that
//          is so for the whole block: then the mean of all its keys does.
// Ours:    the paper scores by the query of every token. A sample of them gives the same mean but
//          for chance. It also scores all distant tokens as if they stood at one distance; keys
//          here are as they were rotated.
// Row:     the mean of the representatives, in float32: q times it is the published relevance, the
//          sum of q.k over them, over how many they are.
// Errors:  none. Keys are finite; queries that are not are left out.
// Threads: pure functions.
// Source:  InfLLM (arXiv:2402.04617) 3.2.
#ifndef ATTNDB_INDEX_COARSE_BLOCK_REPRESENTATIVES_H_
#define ATTNDB_INDEX_COARSE_BLOCK_REPRESENTATIVES_H_

#include <cstddef>

#include "index/coarse/block_format.h"
#include "index/coarse/block_source.h"

namespace attndb::index {

// Tokens of the paper's local window.
inline constexpr size_t kLocalTokens = 4096;

// Writes a row for each block: [blocks, num_elements].
void WriteRepresentatives(const BlockSource& source, const BlockForm& form, float* rows);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_BLOCK_REPRESENTATIVES_H_
