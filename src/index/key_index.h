// The interface of an index over the keys of one kv head of a run of tokens: it finds the critical
// ones for all q heads of a group, without scoring every key. Clusters (clustered/), graphs
// (graph/), product codes (pq/), blocks (coarse/) and types of the caller's own (custom/) implement
// it.
//
// Chains:  one search serves all runs of a chain: who looks in all of them at once knows better
//          what is worth looking at in each.
// Shapes:  q [num_q_rows] rows of keys.num_elements float32; keys of a run are numbered from 0 in
//          the order of their tokens.
// Units:   scores are inner products q.k, unscaled, exact: from K where it lies. Larger is better.
// Filter:  only keys [first_visible, num_visible) of a run may be found: without sinks, and of a
//          prefix, as a reused context has.
// Rows:    keys that are scored are asked for in lists, one a phase.
// Errors:  those of reading keys; sizes are preconditions. Keys and q are finite (heads with NaN or
//          Inf run `full`).
// Threads: constant once built; concurrent calls must not share scratch, lease or what they write.
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

// What is wanted of each q row.
enum class SearchKind : uint8_t {
  kTopK,      // The k best.
  kRange,     // All with score >= best - beta: DIPR, AlayaDB 6.1.
  kMass,      // The fewest that hold a share of the softmax mass, with what is attended to anyway.
  kSelected,  // All that the index selects, and its estimate of the rest (custom/).
};

// How a graph walks a range; other indexes have one way.
enum class RangeWalk : uint8_t {
  kBestFirst,  // All q rows at once; of the keys in sight the best is followed first, while one is
               // in range.
  kListOrder,  // AlayaDB, Algorithm 1: each q row alone, keys in the order of finding them.
};

// What a graph looks through where some of its keys may not be found.
enum class Expand : uint8_t {
  kHidden,  // Keys that may not be found: their neighbours stand in their place.
  kAll,     // All neighbours of a key that is followed: their neighbours too (AlayaDB 7.1).
};

struct SearchSpec {
  SearchKind kind = SearchKind::kTopK;
  uint32_t k = 0;       // >= 1.
  float beta = 0.0f;    // >= 0.
  float effort = 0.0f;  // How hard it looks, in the unit of the index; 0: as it thinks fit.
  RangeWalk range_walk = RangeWalk::kBestFirst;
  uint32_t list_threshold = 0;  // Of kListOrder: AlayaDB's l0.
  Expand expand = Expand::kHidden;
  double p = 0;  // Of kMass, in (0, 1].
  // What makes logits of scores: of kMass and kTopK, and for indexes of the caller's own.
  kernels::LogitSpec logit;
  std::array<double, 5> arguments{};  // That these take of the plan, in the type's order.
  // How many of the k keys, fewer than k, the caller may leave out: a search looks no harder for
  // them than it would for the others alone.
  uint32_t spare = 0;
};

class KeyIndex;

// A run of tokens with its index.
struct IndexRun {
  const KeyIndex* index = nullptr;
  storage::Strip strip;    // Of its keys,
  kernels::RowsView keys;  // ... and their form; where they lie is the lease's to say.
  size_t first_visible = 0;
  size_t num_visible = 0;    // <= the index's num_keys().
  uint32_t first_token = 0;  // Of key 0, modulo 2^32: keys that are not visible may come before 0.

  // Keys that are visible.
  size_t count() const { return num_visible - std::min(first_visible, num_visible); }
};

struct IndexCall {
  SearchSpec spec;
  std::span<const IndexRun> runs;  // At least one; their indexes are of one kind, none of no keys.
  const float* q = nullptr;
  size_t q_stride = 0;  // Elements.
  size_t num_q_rows = 0;
  // [num_q_rows]: the best score that is known from elsewhere: sinks and window. -inf: none. A
  // range counts from the better of this and what is found.
  const float* best = nullptr;
  // [num_q_rows]: of kMass, the log of the mass that sinks, window and denominator hold.
  const double* log_fixed = nullptr;
  storage::RowLease* rows = nullptr;  // By which keys are read.

  size_t num_channels() const { return runs[0].keys.num_elements; }
  // Visible keys of all runs.
  size_t num_visible() const {
    size_t count = 0;
    for (const IndexRun& run : runs) count += run.count();
    return count;
  }
};

// What was found for one q row: by run, in no order within one. Not owned; room for as many as are
// visible.
struct FoundKeys {
  uint32_t* tokens = nullptr;
  float* scores = nullptr;
  size_t count = 0;
  // A search by mass writes the log of the mass of all visible keys here. That of keys that it did
  // not find is estimated.
  double log_mass = -std::numeric_limits<double>::infinity();
  // Of kSelected: what stands for the visible keys that were not found, as a finished partial
  // softmax: the log of its sum, and its mean of v in a padded row of the scratch. -inf: nothing.
  float rest_lse = -std::numeric_limits<float>::infinity();
  float* rest = nullptr;
};

// What a search did, added to what is there: of all q rows together.
struct SearchCost {
  uint64_t bytes_touched = 0;  // Of the index and of K.
  uint64_t keys_scored = 0;    // Keys whose score was estimated or computed, once a q row.
  uint64_t rows_read = 0;      // Rows of K.
  uint64_t hops = 0;           // Reads that waited for the one before.
  uint64_t clusters = 0;       // Clusters, or blocks, whose keys were visited.
  uint64_t full_scans = 0;     // Runs of which every visible key was scored, since they are few.
};

class KeyIndex {
 public:
  virtual ~KeyIndex() = default;

  // Keys that it covers: [first_key(), num_keys()) of its run. Others are the caller's.
  virtual size_t first_key() const { return 0; }
  virtual size_t num_keys() const = 0;
  virtual uint64_t memory_bytes() const = 0;

  // Of 64-byte aligned scratch for a call whose first run this one's is.
  virtual size_t ScratchBytes(const IndexCall& call) const = 0;

  // The same index, for draws; null if it can't make them.
  virtual const DrawIndex* draws() const { return nullptr; }

  // The same index, for draws in two phases; null if it weighs no keys.
  virtual const WeighIndex* weighs() const { return nullptr; }

  // Searches all runs of the call, of which this one's is the first. found[r]: of q row r. A top-k
  // search finds the k best of all keys that it looked at, and perhaps others; a range search may
  // find keys that only the best of a later run puts out of range. Allocates nothing but in
  // custom/. After an error what was found means nothing.
  virtual Status Search(const IndexCall& call, void* scratch, FoundKeys* found,
                        SearchCost* cost) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_KEY_INDEX_H_
