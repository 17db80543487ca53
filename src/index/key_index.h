// The interface of an index over the keys of one kv head of a run of tokens. It finds the critical
// keys for all q heads of a group, without scoring every key. Implemented by clusters (clustered/),
// graphs (graph/), product codes (pq/), blocks (coarse/) and the caller's own types (custom/).
//
// Chains:  one search serves all runs of a chain, because the result in one run sets the limit for
//          the others.
// Shapes:  q [num_q_rows] rows of keys.num_elements float32; keys of a run are numbered from 0 in
//          the order of their tokens.
// Units:   scores are exact inner products q.k, unscaled; larger is better.
// Filter:  only keys [first_visible, num_visible) of a run may be found: sinks are hidden, and so
//          are tokens beyond a reused prefix.
// Rows:    a search requests the keys that it scores as lists, one list per phase.
// Errors:  those of reading keys; sizes are preconditions. Keys and q are finite (heads with NaN or
//          Inf run `full`).
// Threads: constant after construction; concurrent calls must not share scratch, lease or outputs.
#ifndef ATTNDB_INDEX_KEY_INDEX_H_
#define ATTNDB_INDEX_KEY_INDEX_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "attndb/status.h"
#include "index/draw_index.h"
#include "index/weigh_index.h"
#include "kernels/attention_state.h"
#include "kernels/layout.h"
#include "storage/kv/row_source.h"

namespace attndb::index {

// The kind of result of a search for each q row.
enum class SearchKind : uint8_t {
  kTopK,   // The k best.
  kRange,  // All with score >= best - beta: DIPR, AlayaDB 6.1.
  // The fewest that, with the tokens attended to in any case, hold a share of the softmax mass.
  kMass,
  kSelected,  // All that the index selects, and its estimate of the rest (custom/).
};

// How a graph walks a range; other indexes have one way.
enum class RangeWalk : uint8_t {
  // All q rows at once; of the keys in sight the best is followed first, while one is in range.
  kBestFirst,
  kListOrder,  // AlayaDB, Algorithm 1: each q row alone, keys in the order of finding them.
};

// The keys through which a graph looks further if some of its keys are hidden.
enum class Expand : uint8_t {
  kHidden,  // Hidden keys: replaced by their neighbours.
  kAll,     // All neighbours of a key that is followed: their neighbours too (AlayaDB 7.1).
};

struct SearchSpec {
  SearchKind kind = SearchKind::kTopK;
  uint32_t k = 0;     // >= 1.
  float beta = 0.0f;  // >= 0.
  // How thoroughly it looks, in the index's own unit; 0: as the index thinks fit.
  float effort = 0.0f;
  RangeWalk range_walk = RangeWalk::kBestFirst;
  uint32_t list_threshold = 0;  // For kListOrder: AlayaDB's l0.
  Expand expand = Expand::kHidden;
  double p = 0;  // For kMass, in (0, 1].
  // How scores become logits: for kMass and kTopK, and for the caller's own indexes.
  kernels::LogitSpec logit;
  // The plan's values for a caller's own index, in the order of its keys.
  std::array<double, 5> arguments{};
  // How many of the k keys, fewer than k, the caller may leave out: a search looks only as hard as
  // it would for the other keys alone.
  uint32_t spare = 0;
};

class KeyIndex;

// A run of tokens with its index.
struct IndexRun {
  const KeyIndex* index = nullptr;
  storage::Strip strip;    // The strip that has its keys.
  kernels::RowsView keys;  // Form of the keys; the lease tells where they lie.
  size_t first_visible = 0;
  size_t num_visible = 0;    // <= the index's num_keys().
  uint32_t first_token = 0;  // Token of key 0, modulo 2^32: hidden keys may come before token 0.

  // Number of visible keys.
  size_t count() const { return num_visible - std::min(first_visible, num_visible); }
};

struct IndexCall {
  SearchSpec spec;
  // At least one; their indexes are of one kind, and each has keys.
  std::span<const IndexRun> runs;
  const float* q = nullptr;
  size_t q_stride = 0;  // Elements.
  size_t num_q_rows = 0;
  // [num_q_rows]: the best known score of other tokens, such as sinks and window; -inf: none. The
  // margin of a range counts from the larger of this and the best found score.
  const float* best = nullptr;
  // [num_q_rows], for kMass: log of the mass of sinks, window and denominator.
  const double* log_fixed = nullptr;
  storage::RowLease* rows = nullptr;  // The lease that reads keys.

  size_t num_channels() const { return runs[0].keys.num_elements; }
  // Number of visible keys of all runs.
  size_t num_visible() const {
    size_t count = 0;
    for (const IndexRun& run : runs) count += run.count();
    return count;
  }
};

// The keys found for one q row: run by run, in no order within a run. Not owned; has room for all
// visible keys.
struct FoundKeys {
  uint32_t* tokens = nullptr;
  float* scores = nullptr;
  size_t count = 0;
  // A search by mass writes the log of the mass of all visible keys here; the mass of keys that it
  // did not find is estimated.
  double log_mass = -std::numeric_limits<double>::infinity();
  // For kSelected: stands for the visible keys that were not found, as a finished partial softmax:
  // the log of its sum, and its mean of v, in a padded row of the scratch. -inf: nothing.
  float rest_lse = -std::numeric_limits<float>::infinity();
  float* rest = nullptr;
};

// Work of a search, for all q rows together; added to the present values.
struct SearchCost {
  uint64_t bytes_touched = 0;  // Bytes of the index and of K.
  uint64_t keys_scored = 0;  // Keys whose score was estimated or computed, counted once per q row.
  uint64_t rows_read = 0;    // Rows of K.
  uint64_t hops = 0;         // Reads that waited for the one before.
  uint64_t clusters = 0;     // Clusters, or blocks, whose keys were visited.
  // Runs in which every visible key was scored, because they are few or estimates tell too little.
  uint64_t full_scans = 0;
};

class KeyIndex {
 public:
  virtual ~KeyIndex() = default;

  // It covers keys [first_key(), num_keys()) of its run. The caller scores the others.
  virtual size_t first_key() const { return 0; }
  virtual size_t num_keys() const = 0;
  virtual uint64_t memory_bytes() const = 0;

  // Bytes of 64-byte aligned scratch for a call whose first run has this index.
  virtual size_t ScratchBytes(const IndexCall& call) const = 0;

  // The same index, for draws; null if it can't make them.
  virtual const DrawIndex* draws() const { return nullptr; }

  // The same index, for draws in two phases; null if it weighs no keys.
  virtual const WeighIndex* weighs() const { return nullptr; }

  // Searches all runs of the call, the first of which has this index. found[r] is for q row r. A
  // top-k search finds the k best of the keys that it scored, and perhaps others; a range search
  // may find keys that only a better key of a later run puts out of range. Only indexes of custom/
  // allocate. After an error `found` is meaningless.
  virtual Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                        SearchCost* cost) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_KEY_INDEX_H_
