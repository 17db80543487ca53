// What plans of a store are priced by: constants that were given, or measured on this machine by
// this process or an earlier one; fixed ones until then.
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
    std::optional<planner::MachineConstants> given;  // They hold, whatever the machine takes.
    bool measures = true;    // Whether what was measured is used, and noted in the hints.
    bool read_only = false;  // Notes nothing, and asks for no measurement.
    // Takes so many bytes of memory to measure with, for as long as the result lives; null if they
    // are not free. Null: they are not counted.
    std::function<std::shared_ptr<const void>(uint64_t bytes)> reserve;
  };

  // `hints` must outlive it.
  MachinePrices(Options options, Hints* hints);

  // Each of the constants that this points to stays as long as the prices. Loaded with acquire.
  const std::atomic<const planner::MachineConstants*>& current() const { return current_; }
  const planner::MachineConstants& Get() const { return *current_.load(std::memory_order_acquire); }

  // Whether this machine should be measured and nobody was told so yet: true once.
  bool ShouldMeasure();
  // Measures this machine if nobody has. Errors: kResourceExhausted (memory, or its limit).
  Status Measure() ATTNDB_EXCLUDES(mutex_);

 private:
  void Take(planner::MachineConstants measured) ATTNDB_REQUIRES(mutex_);

  const Options options_;
  Hints* const hints_;
  const planner::MachineConstants first_;  // Given, or fixed.
  Mutex mutex_;                            // Held by the thread that measures.
  std::unique_ptr<const planner::MachineConstants> measured_ ATTNDB_GUARDED_BY(mutex_);
  // Replaced once, when the machine is measured: stored with release, for the constants that it
  // points to.
  std::atomic<const planner::MachineConstants*> current_;
  std::atomic<bool> asked_ = false;  // Relaxed: it orders nothing else.
};

}  // namespace attndb::internal

#endif  // ATTNDB_PRICES_MACHINE_PRICES_H_
