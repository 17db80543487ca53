// Internal to planes: which transform the planes of a run of keys are built with, by measurement.
//
// Measure: each transform is fitted to a sample of the keys, the sample is quantized, and the
//          scores of sampled queries are compared with exact ones. What counts is, of each query,
//          the eighth of the sampled keys before it that scores highest: these are what a selection
//          tells apart and what its weights come from, while the errors of others, weighted by
//          exp(logit), vanish. Softmax weights themselves would leave it to the one or two largest
//          of so few keys.
// Cost:    a transform that makes a scan slower must make up for it: the least error times cost
//          wins, since for the same time a scan could read more bits.
// Threads: pure functions.
#ifndef ATTNDB_INDEX_PLANES_TRANSFORM_CHOICE_H_
#define ATTNDB_INDEX_PLANES_TRANSFORM_CHOICE_H_

#include <optional>

#include "attndb/result.h"
#include "index/planes/key_sample.h"
#include "index/planes/plane_builder.h"
#include "index/planes/plane_source.h"
#include "index/planes/transform.h"

namespace attndb::index {

struct TransformChoice {
  TransformKind kind;
  TransformVectors vectors;
  std::optional<PlaneErrors> errors;  // None if there were no queries to measure with.
};

// Errors: kResourceExhausted. REQUIRES: source.num_keys > 0.
Result<TransformChoice> ChooseTransform(const PlaneSource& source);

// Fits this transform and measures it.
Result<TransformChoice> TryTransform(const PlaneSource& source, TransformId id);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_TRANSFORM_CHOICE_H_
