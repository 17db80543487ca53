// Times of a machine for the steps that attention is made of: the prices of the cost model.
//
// Units:   nanoseconds of one thread, for rows of kBaseChannels elements of 16 bits; other rows
//          cost in proportion. Bytes per nanosecond are GB/s.
// Source:  measured once per machine with the real kernels (prices/measure_machine.h); the defaults
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

// The numbers of q rows in one pass with known times.
inline constexpr std::array<uint32_t, 4> kBaseGroups = {1, 2, 4, 8};
using GroupNanos = std::array<double, kBaseGroups.size()>;

// The time for any number of q rows: interpolated between the measured numbers, and extrapolated
// beyond the last.
double AtGroup(const GroupNanos& nanos, double num_q_rows);

// Times of a scan of key planes.
struct ScanNanos {
  uint32_t bits = 0;
  GroupNanos per_key{};
  friend bool operator==(const ScanNanos&, const ScanNanos&) = default;
};

struct MachineConstants {
  // The machine of these times.
  std::string cpu;
  std::string isa;
  uint32_t num_threads = 0;  // Threads that read memory at `all_bytes_per_ns`.
  bool measured = false;

  double one_bytes_per_ns = 11.0;        // Memory streamed by one thread.
  double all_bytes_per_ns = 18.0;        // Memory streamed by all threads together.
  GroupNanos attend = {50, 50, 52, 84};  // Attending to K and V of a token, in a stream.
  GroupNanos score = {25, 25, 26, 42};   // Scoring K of a token, in a stream.
  std::vector<ScanNanos> scans = {{8, {12, 12, 16, 32}}, {4, {6, 7, 12, 24}}};
  double select = 2.0;   // Comparing and weighing a token, by one q head.
  double row = 45.0;     // Reading a row at a random place, and one q head's work on it.
  double hop = 110.0;    // Reading a row whose place the previous read gave.
  double head = 2000.0;  // Choosing, for a q head, however few tokens there are.

  friend bool operator==(const MachineConstants&, const MachineConstants&) = default;

  // Times for planes of this many bits; for the next wider ones if these were not measured.
  const GroupNanos& Scan(uint32_t bits) const;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_MACHINE_CONSTANTS_H_
