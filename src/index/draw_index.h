// The interface of an index that draws tokens by weight (kernels/draw.h) without scoring every key:
// it estimates scores in an order of its own, and skips blocks that can hold nothing of the sample.
// Clusters (clustered/) implement it.
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
  // first_key is a place, a multiple of 64; first_token is the token of the run's key 0.
  KeepCall scan;
  // Only keys [first_visible, num_visible) of the run may be drawn.
  size_t first_visible = 0;
  size_t num_visible = 0;
  float effort = 0.0f;                  // How thoroughly it looks; 0: as the index thinks fit.
  const float* q_norms = nullptr;       // [queries]
  float* row_reaches = nullptr;         // [queries], written.
  kernels::KeptTokens* work = nullptr;  // Memory for scan.num_keys tokens; written.
};

class DrawIndex {
 public:
  virtual ~DrawIndex() = default;

  // Estimates of the scores of its keys, by place.
  virtual const KeyEstimates& estimates() const = 0;

  // The places that hold keys [first, end); begin is a multiple of 64.
  virtual PlaceRange PlacesOf(size_t first, size_t end) const = 0;

  // Like KeyEstimates::Keep, over the places of call.scan, in their order. Skips blocks that are
  // expected to hold no token of the sample, except blocks that it audits. REQUIRES: queries were
  // prepared by estimates() for 4 bits.
  virtual KeepCost Draw(const DrawCall& call, kernels::KeptTokens* kept) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_DRAW_INDEX_H_
