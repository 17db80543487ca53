#include "planner/cost_model.h"

#include <algorithm>

namespace attndb::planner {
namespace {

// Bytes of the rows that constants are measured with.
constexpr double kBaseRowBytes = 2 * kBaseChannels;

constexpr double kScaleBytes = 2;  // Bytes of a key's scale in the planes.
constexpr double kCodedBytes = 1;  // Bytes of one channel of V at 8 bits.

// A stream of `bytes` for which the kernel takes `ns`: whichever is slower.
double StreamNanos(double bytes, double ns, const HeadShape& shape,
                   const MachineConstants& machine) {
  const double share = machine.all_bytes_per_ns / std::max<uint32_t>(1, shape.num_threads);
  return std::max(ns, bytes / std::min(machine.one_bytes_per_ns, share));
}

}  // namespace

double ScanBytes(const HeadShape& shape, uint32_t bits) {
  return shape.channels * bits / 8 + kScaleBytes;
}

Cost FullCost(const HeadShape& shape, double tokens, double num_rows,
              const MachineConstants& machine) {
  const double row_bytes = shape.k_bytes + shape.v_bytes;
  const double per_token =
      AtGroup(machine.attend, shape.group_size * num_rows) * row_bytes / (2 * kBaseRowBytes);
  Cost cost;
  cost.bytes = tokens * row_bytes;
  cost.ns = StreamNanos(cost.bytes, tokens * per_token, shape, machine);
  return cost;
}

Cost SparseCost(const HeadShape& shape, const SparseRead& read, const MachineConstants& machine) {
  const SearchWork& work = read.work;
  const double group = shape.group_size;
  const double exact_bytes = work.exact_keys * shape.k_bytes;
  const double exact_ns =
      work.exact_keys * AtGroup(machine.score, group) * shape.k_bytes / kBaseRowBytes;
  const double scan_bytes = work.scanned_keys * ScanBytes(shape, read.bits);
  const double scan_ns =
      work.scanned_keys * AtGroup(machine.Scan(read.bits), group) * shape.channels / kBaseChannels;
  const double k_rows = read.distinct * work.reranked_keys * shape.k_bytes;
  const double v_row_bytes =
      (1 - read.coded) * shape.v_bytes + read.coded * shape.v_channels * kCodedBytes;
  const double v_rows = read.distinct * read.rows * v_row_bytes;
  Cost cost;
  cost.bytes = exact_bytes + scan_bytes + group * (k_rows + v_rows + read.value_bytes);
  cost.ns = StreamNanos(exact_bytes, exact_ns, shape, machine) +
            StreamNanos(scan_bytes, scan_ns, shape, machine) +
            group * StreamNanos(read.value_bytes, 0, shape, machine) +
            group * (machine.head + work.compared_keys * machine.select +
                     (k_rows + v_rows) / kBaseRowBytes * machine.row + work.hops * machine.hop);
  return cost;
}

double WallMicros(const Cost& sum, uint32_t num_threads, const MachineConstants& machine) {
  const double threads = std::max<uint32_t>(1, num_threads);
  return std::max(sum.ns / threads, sum.bytes / machine.all_bytes_per_ns) * 1e-3;
}

}  // namespace attndb::planner
