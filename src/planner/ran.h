// Tallies over calls which parts of a plan ran. An index may not be built, key planes may be
// missing, or a rule may read everything. The tally tells what ran instead, and why.
//
// Units:   a weight is tokens times rows of q, summed over kv heads.
// Threads: a value. Add allocates nothing.
#ifndef ATTNDB_PLANNER_RAN_H_
#define ATTNDB_PLANNER_RAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan.h"

namespace attndb::planner {

// A part that a plan asks for.
enum class Wanted : uint8_t {
  kQuery,        // The query itself; `full` runs instead.
  kIndex,        // The index; all keys are scored instead.
  kKeyPlanes,    // Key planes; the keys themselves are scored instead.
  kValuePlanes,  // Value planes; the values themselves are read instead.
  kMeans,        // Means of values; the values themselves are read instead.
  kClusters,     // Clusters of the remainder; the remainder is dropped instead.
  kStatic,       // Static tokens; there are none instead.
};
inline constexpr size_t kNumWanted = 7;

// The reason why a part did not run.
enum class Cause : uint8_t {
  kNone,          // It ran.
  kTooFewTokens,  // The run is too short to have the object.
  kNotStored,     // Only stored tokens have such objects.
  kNotBuilt,      // The object is not ready.
  kNothing,       // The object has no data for the head.
  kMoved,         // The tokens have moved, and their keys are for other positions.
  kNoMemory,
  kNonFinite,    // K or V of the head has NaN or Inf.
  kFullCheaper,  // The optimizer chose `full`.
  kScanCheaper,  // The optimizer chose a scan.
  kLessWork,     // The index estimated that scoring every key is less work.
  kRule,         // A rule says `full`.
};
inline constexpr size_t kNumCauses = 12;

class RanTally {
 public:
  // A substitute and the part that it replaced, in words of the plan.
  struct Entry {
    std::string ran;
    std::string wanted;
    std::string because;
    double share = 0;  // Share of the weight of the wanted part; in (0, 1].
  };

  // Begins to add a call of this plan. REQUIRES: the plan's registry outlives the tally.
  void Begin(const LayerPlan& plan) {
    plan_ = plan;
    empty_ = false;
  }
  void Add(Wanted wanted, Cause cause, double weight) { At(wanted, cause) += weight; }
  // `rule` is static text: the reason why all heads run `full`.
  void AddRule(std::string_view rule, double weight) {
    rule_ = rule;
    At(Wanted::kQuery, Cause::kRule) += weight;
  }
  // Moves weight from the index to its full scans: these tokens were scored key by key.
  void MoveToLessWork(double weight) {
    At(Wanted::kIndex, Cause::kNone) -= weight;
    At(Wanted::kIndex, Cause::kLessWork) += weight;
  }
  // The fewest tokens of a run with the object; 0: not known.
  void SetLeastTokens(Wanted wanted, uint64_t num_tokens) {
    least_tokens_[static_cast<size_t>(wanted)] = num_tokens;
  }

  // No call was added.
  bool empty() const { return empty_; }
  double weight(Wanted wanted, Cause cause) const {
    return weights_[static_cast<size_t>(wanted)][static_cast<size_t>(cause)];
  }
  // The parts that did not run; for each part, the largest share first.
  std::vector<Entry> Entries() const;
  // The plan of a head or of the layer, with each part that never ran replaced by its substitute.
  // `flat` is the index that scores all keys.
  LayerPlan Ran(const LayerPlan& plan, const IndexType* flat) const;

 private:
  double& At(Wanted wanted, Cause cause) {
    return weights_[static_cast<size_t>(wanted)][static_cast<size_t>(cause)];
  }
  double Sum(Wanted wanted) const;
  // The part was wanted and never ran.
  bool NeverRan(Wanted wanted) const;
  bool IsAll(Wanted wanted, Cause cause) const;
  Entry EntryOf(Wanted wanted, Cause cause) const;
  std::string Because(Wanted wanted, Cause cause) const;

  LayerPlan plan_;  // The plan of the last call.
  bool empty_ = true;
  std::string_view rule_;
  std::array<std::array<double, kNumCauses>, kNumWanted> weights_{};
  std::array<uint64_t, kNumWanted> least_tokens_{};
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_RAN_H_
