// Internal to planes: chooses, by measurement, the transform with which planes of a run are built.
//
// Measure: each transform is fitted to a sample of the keys, the sample is quantized, and the
//          scores of sampled queries are compared with exact ones. For each query only the eighth
//          of the earlier sampled keys counts that scores highest: a selection tells these apart
//          and takes its weights from them, while errors of other keys, weighted by exp(logit),
//          vanish. Softmax weights themselves would leave the choice to the one or two largest of
//          so few keys.
// Cost:    a transform that makes a scan slower must err less: the smallest product of error and
//          cost wins, since in the same time a scan could read more bits.
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

// Chooses the transform for a source. Errors: kResourceExhausted. REQUIRES: source.num_keys > 0.
Result<TransformChoice> ChooseTransform(const PlaneSource& source);

// Fits this transform and measures it.
Result<TransformChoice> TryTransform(const PlaneSource& source, TransformId id);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_TRANSFORM_CHOICE_H_
