// The sources from which key planes and indexes of a layer's heads are made.
//
// Errors:  none. If sampled queries can't be read, objects are still made, but are less good.
// Threads: constant after construction.
#ifndef ATTNDB_DERIVED_PLANE_SOURCES_H_
#define ATTNDB_DERIVED_PLANE_SOURCES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "index/planes/plane_source.h"
#include "index/planes/rotary_bias.h"
#include "kernels/layout.h"
#include "storage/kv/kv_run.h"

namespace attndb::derived {

// Padded elements of a row of K.
inline size_t KeyElements(const storage::KvRun& run, LayerId layer) {
  return kernels::RowElements(run.shape().layers[layer].head_dim);
}

class PlaneSources {
 public:
  // The run must outlive it.
  PlaneSources(const storage::KvRun& run, LayerId layer, const LayerSpec& spec)
      : row_(KeyElements(run, layer)),
        source_{.num_keys = run.num_tokens(), .first_position = run.first_position()},
        dtype_(run.shape().dtype),
        frequencies_(index::RotaryFrequencies(spec.rope, spec.head_dim)),
        queries_(run.ReadQueries(layer)) {}

  // The source of one kv head. `k`: the head's rows of the whole run. The result points into this.
  index::PlaneSource Of(uint32_t kv_head, const std::byte* k) const {
    index::PlaneSource source = source_;
    source.keys = {k, row_, row_, dtype_};
    source.frequencies = frequencies_;
    if (queries_.ok()) source.queries = queries_->rows(kv_head);
    return source;
  }

 private:
  const size_t row_;
  const index::PlaneSource source_;
  const DType dtype_;
  const std::vector<double> frequencies_;
  const Result<storage::LayerQueries> queries_;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_PLANE_SOURCES_H_
