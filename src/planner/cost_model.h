// Bytes and nanoseconds of attention, for one kv head of a layer and one call.
//
// Model:   a stream costs its measured kernel time, but at least bytes / bandwidth. Added are
//          choosing (per token and q head), rows read at random places, and dependent hops. All
//          terms are linear, because the model only compares plans. Observations correct its errors
//          on a machine (learned_state.h).
// Units:   ns of one thread; bytes of K and V read.
// Threads: pure functions.
#ifndef ATTNDB_PLANNER_COST_MODEL_H_
#define ATTNDB_PLANNER_COST_MODEL_H_

#include <cstdint>

#include "planner/machine_constants.h"
#include "planner/plan_registry.h"

namespace attndb::planner {

struct Cost {
  double bytes = 0;
  double ns = 0;
};

// The shape of one kv head and its group of q heads.
struct HeadShape {
  uint32_t group_size = 1;
  double k_bytes = 0;        // Bytes of a stored row of K.
  double v_bytes = 0;        // Bytes of a stored row of V.
  double channels = 0;       // Channels of a padded row of K.
  double v_channels = 0;     // Channels of a padded row of V.
  uint32_t num_threads = 1;  // Threads that share a call.
};

// The reads of a sparse call: a search, rows of V per q head, and value planes.
struct SparseRead {
  SearchWork work;
  uint32_t bits = 0;  // Bits of the planes that are scanned.
  double rows = 0;    // Rows of V per q head: fixed, selected and sampled tokens.
  // Distinct rows of K and V that the group's q heads read, divided by the sum of each head's rows.
  double distinct = 1.0;
  // Share of the rows of V that is read from 8-bit value planes.
  double coded = 0.0;
  double value_bytes = 0.0;  // Bytes of value planes that are streamed, per q head.
};

// Cost of reading K and V of `tokens` tokens once for `num_rows` rows of q.
Cost FullCost(const HeadShape& shape, double tokens, double num_rows,
              const MachineConstants& machine);

// Cost of a search and of attending to its result, for one row of q.
Cost SparseCost(const HeadShape& shape, const SparseRead& read, const MachineConstants& machine);

// Bytes of a key that a scan of planes reads.
double ScanBytes(const HeadShape& shape, uint32_t bits);

// Microseconds that the cost `sum` of all heads takes when num_threads share it.
double WallMicros(const Cost& sum, uint32_t num_threads, const MachineConstants& machine);

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_COST_MODEL_H_
