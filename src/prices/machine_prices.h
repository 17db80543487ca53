// The prices of a store's plans: constants that were given, or that this process or an earlier one
// measured on this machine. Until then, fixed constants.
//
// Threads: thread-safe. Order of locks: its own, then that of the hints.
#ifndef ATTNDB_PRICES_MACHINE_PRICES_H_
#define ATTNDB_PRICES_MACHINE_PRICES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "attndb/status.h"
#include "common/mutex.h"
#include "planner/machine_constants.h"
#include "prices/hints.h"

namespace attndb::internal {

class MachinePrices {
 public:
  struct Options {
    std::optional<planner::MachineConstants> given;  // They are used on every machine.
    bool measures = true;    // Whether measured constants are used, and noted in the hints.
    bool read_only = false;  // Notes nothing, and asks for no measurement.
    // Takes this many bytes of memory for the measurement, while the result lives; null if they are
    // not free. A null function: they are not counted.
    std::function<std::shared_ptr<const void>(uint64_t bytes)> reserve;
  };

  // `hints` must outlive it.
  MachinePrices(Options options, Hints* hints);

  // Each constants object that this pointed to lives as long as the prices. Loaded with acquire.
  const std::atomic<const planner::MachineConstants*>& current() const { return current_; }
  const planner::MachineConstants& Get() const { return *current_.load(std::memory_order_acquire); }

  // Whether this machine should be measured. Returns true only once.
  bool ShouldMeasure();
  // Measures this machine, if that was not done. Errors: kResourceExhausted (memory, or its limit).
  Status Measure() ATTNDB_EXCLUDES(mutex_);

 private:
  void Take(planner::MachineConstants measured) ATTNDB_REQUIRES(mutex_);

  const Options options_;
  Hints* const hints_;
  const planner::MachineConstants first_;  // Given, or fixed.
  Mutex mutex_;                            // Held by the thread that measures.
  std::unique_ptr<const planner::MachineConstants> measured_ ATTNDB_GUARDED_BY(mutex_);
  // Replaced once, when the machine was measured: stored with release, so that readers see the new
  // constants.
  std::atomic<const planner::MachineConstants*> current_;
  std::atomic<bool> asked_ = false;  // Relaxed: it orders nothing else.
};

}  // namespace attndb::internal

#endif  // ATTNDB_PRICES_MACHINE_PRICES_H_
