// The interface of an index that draws tokens by weight (kernels/draw.h) without scoring every key:
// it has estimates of their scores in an order of its own, and skips what can hold none of the
// sample. Clusters (clustered/) implement it.
//
// Place:   a key's number in that order.
// Errors:  none; sizes are preconditions.
// Threads: constant once built; concurrent calls must not share memory that they write.
#ifndef ATTNDB_INDEX_DRAW_INDEX_H_
#define ATTNDB_INDEX_DRAW_INDEX_H_

#include <cstddef>
#include <cstdint>

#include "index/key_estimates.h"
#include "kernels/draw.h"

namespace attndb::index {

struct PlaceRange {
  size_t begin = 0;
  size_t end = 0;
};

struct DrawCall {
  KeepCall scan;  // first_key is a place, a multiple of 64; first_token is that of the run's key 0.
  // Only keys [first_visible, num_visible) of the run may be drawn.
  size_t first_visible = 0;
  size_t num_visible = 0;
  float effort = 0.0f;                  // How hard it looks; 0: as it thinks fit.
  const float* q_norms = nullptr;       // [queries]
  float* row_reaches = nullptr;         // [queries], written.
  kernels::KeptTokens* work = nullptr;  // Room for scan.num_keys tokens; written.
};

class DrawIndex {
 public:
  virtual ~DrawIndex() = default;

  // Of the scores of its keys, by place.
  virtual const KeyEstimates& estimates() const = 0;

  // The places that hold keys [first, end): they begin with a multiple of 64.
  virtual PlaceRange PlacesOf(size_t first, size_t end) const = 0;

  // As KeyEstimates::Keep: keeps what the rule draws of the places of call.scan, in their order,
  // but skips blocks of which it thinks that they hold none, save those that it audits.
  // REQUIRES: queries were prepared by estimates() for 4 bits.
  virtual KeepCost Draw(const DrawCall& call, kernels::KeptTokens* kept) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_DRAW_INDEX_H_
