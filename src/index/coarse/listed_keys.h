// Keys that a search has selected for all q rows of its group: each is scored exactly for all rows,
// and each row chooses among them.
//
// Errors:  those of reading keys.
// Memory:  the caller's scratch; nothing is allocated.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_COARSE_LISTED_KEYS_H_
#define ATTNDB_INDEX_COARSE_LISTED_KEYS_H_

#include <cstddef>
#include <cstdint>

#include "attndb/status.h"
#include "index/key_index.h"
#include "index/search_scratch.h"

namespace attndb::index {

// How many of num_keys visible keys a search lists: `effort` times k, or all.
size_t NumWanted(const SearchSpec& spec, size_t num_keys);

class ListedKeys {
 public:
  // max_keys: limit of the keys that are listed. The call must outlive it.
  ListedKeys(const IndexCall& call, size_t max_keys, SearchScratch* scratch);

  void Clear();
  // Lists a key. REQUIRES: runs ascend.
  void Add(size_t run, size_t key) {
    keys_[count_] = static_cast<uint32_t>(key);
    tokens_[count_++] = static_cast<uint32_t>(call_.runs[run].first_token + key);
    ++counts_[run];
  }
  // Scores all listed keys exactly.
  Status Score(SearchCost* cost);
  // Writes the k best listed keys of a row.
  void Choose(size_t row, FoundKeys* found) const;

  // Scratch of kernels::SelectTopK for max_keys scores.
  void* select_scratch() const { return select_; }

 private:
  const IndexCall& call_;
  const size_t max_keys_;
  size_t count_ = 0;
  size_t* counts_ = nullptr;    // [run]
  uint32_t* keys_ = nullptr;    // The listed keys, as keys of their runs.
  uint32_t* tokens_ = nullptr;  // The listed keys, as tokens.
  float* exact_ = nullptr;      // [q row][listed], max_keys_ apart.
  uint32_t* chosen_ = nullptr;  // A row's choice.
  std::byte* select_ = nullptr;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_COARSE_LISTED_KEYS_H_
