// What it costs to attend: bytes and nanoseconds of one kv head of a layer, for one call.
//
// Model:   streams cost what the kernels were measured to take, and at least bytes / bandwidth; on
//          top come choosing (per token and q head), rows that are read here and there and
//          dependent hops. All linear: it prices plans against each other, and what it gets wrong
//          on a machine is corrected by what was observed (learned_state.h).
// Units:   ns of one thread; K and V bytes that are read.
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

// One kv head with its group of q heads.
struct HeadShape {
  uint32_t group_size = 1;
  double k_bytes = 0;        // Of a stored row of K,
  double v_bytes = 0;        // ... and of V.
  double channels = 0;       // Of a padded row of K,
  double v_channels = 0;     // ... and of V.
  uint32_t num_threads = 1;  // That share a call.
};

// What is read of K and V: a search, rows of V per q head, and value planes.
struct SparseRead {
  SearchWork work;
  uint32_t bits = 0;  // Of the scan.
  double rows = 0;    // Of V, per q head: fixed, selected and sampled tokens.
  // Of the rows of K and V of all q heads of the group, the share that no other one reads too.
  double distinct = 1.0;
  // Of the rows of V, the share that is read from value planes of 8 bits instead.
  double coded = 0.0;
  double value_bytes = 0.0;  // Streamed of value planes, per q head.
};

// K and V of `tokens` tokens, once for `num_rows` rows of q.
Cost FullCost(const HeadShape& shape, double tokens, double num_rows,
              const MachineConstants& machine);

// A search and what it chose, for one row of q.
Cost SparseCost(const HeadShape& shape, const SparseRead& read, const MachineConstants& machine);

// Bytes that a scan of planes reads of a key.
double ScanBytes(const HeadShape& shape, uint32_t bits);

// Time that `sum` of all heads takes when num_threads share it, in microseconds.
double WallMicros(const Cost& sum, uint32_t num_threads, const MachineConstants& machine);

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_COST_MODEL_H_
