// The interface of a ranking of a segment's tokens, for one kv head, that holds for every query:
// prefill/ makes one from the prompt's last queries.
//
// Threads: a view; its maker keeps the memory alive.
#ifndef ATTNDB_INDEX_TOKEN_RANKING_H_
#define ATTNDB_INDEX_TOKEN_RANKING_H_

#include <cstdint>
#include <span>

namespace attndb::index {

struct TokenRanking {
  // Rows of the segment's keys, each at most once, the heaviest first.
  std::span<const uint32_t> rows;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_TOKEN_RANKING_H_
