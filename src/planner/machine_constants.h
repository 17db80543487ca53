// What a machine takes for the steps that attention is made of: the prices of the cost model.
//
// Units:   nanoseconds of one thread, for rows of kBaseChannels elements of 16 bits; other rows
//          cost in proportion. Bytes a nanosecond are GB/s.
// Source:  measured once a machine through the real kernels (db/measure_machine.h); the defaults
//          are those of an AMD Zen 3 at 2.6 GHz.
// Threads: values.
#ifndef ATTNDB_PLANNER_MACHINE_CONSTANTS_H_
#define ATTNDB_PLANNER_MACHINE_CONSTANTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attndb::planner {

inline constexpr double kBaseChannels = 128;

// For 1, 2, 4 and 8 q rows that share a pass.
inline constexpr std::array<uint32_t, 4> kBaseGroups = {1, 2, 4, 8};
using GroupNanos = std::array<double, kBaseGroups.size()>;

// Of any number of q rows: on the lines between the measured ones, and on the last one beyond.
double AtGroup(const GroupNanos& nanos, double num_q_rows);

// A scan of key planes.
struct ScanNanos {
  uint32_t bits = 0;
  GroupNanos per_key{};
  friend bool operator==(const ScanNanos&, const ScanNanos&) = default;
};

struct MachineConstants {
  // What they hold for.
  std::string cpu;
  std::string isa;
  uint32_t num_threads = 0;  // That read memory in `all_bytes_per_ns`.
  bool measured = false;

  double one_bytes_per_ns = 11.0;        // Streamed by one thread,
  double all_bytes_per_ns = 18.0;        // ... and by all of them together.
  GroupNanos attend = {50, 50, 52, 84};  // K and V of a token, in a stream.
  GroupNanos score = {25, 25, 26, 42};   // K of a token, in a stream.
  std::vector<ScanNanos> scans = {{8, {12, 12, 16, 32}}, {4, {6, 7, 12, 24}}};
  double select = 2.0;   // A token that one q head compares and weighs.
  double row = 45.0;     // A row read here and there, and what one q head does with it.
  double hop = 110.0;    // A read that waits for the one before.
  double head = 2000.0;  // What choosing costs a q head however few tokens there are.

  friend bool operator==(const MachineConstants&, const MachineConstants&) = default;

  // Of planes of this many bits; of the next wider ones if these were not measured.
  const GroupNanos& Scan(uint32_t bits) const;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_MACHINE_CONSTANTS_H_
