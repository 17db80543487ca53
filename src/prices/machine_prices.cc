#include "prices/machine_prices.h"

#include <string>
#include <utility>

#include "attndb/result.h"
#include "attndb/units.h"
#include "prices/measure_machine.h"

namespace attndb::internal {

MachinePrices::MachinePrices(Options options, Hints* hints)
    : options_(std::move(options)),
      hints_(hints),
      first_(options_.given.value_or(DefaultMachine())),
      current_(&first_) {
  if (options_.given || !options_.measures) return;
  std::optional<planner::MachineConstants> kept = hints_->FindMachine(first_);
  MutexLock lock(&mutex_);
  if (kept) Take(*std::move(kept));
}

void MachinePrices::Take(planner::MachineConstants measured) {
  measured_ = std::make_unique<const planner::MachineConstants>(std::move(measured));
  current_.store(measured_.get(), std::memory_order_release);
}

bool MachinePrices::ShouldMeasure() {
  const bool may_measure = options_.measures && !options_.read_only && !options_.given;
  if (Get().measured || !may_measure) return false;
  return !asked_.load(std::memory_order_relaxed) &&
         !asked_.exchange(true, std::memory_order_relaxed);
}

Status MachinePrices::Measure() {
  MutexLock lock(&mutex_);
  if (Get().measured || options_.given) return Status::Ok();
  const uint64_t num_bytes = MeasuredBytes();
  const auto memory = options_.reserve ? options_.reserve(num_bytes) : nullptr;
  if (options_.reserve && memory == nullptr) {
    return Status::ResourceExhausted("measuring the machine takes " + FormatBytes(num_bytes) +
                                     ", expected these free within host_memory_bytes");
  }
  ATTNDB_ASSIGN_OR_RETURN(planner::MachineConstants measured, MeasureMachine(num_bytes));
  if (options_.measures && !options_.read_only) hints_->NoteMachine(measured);
  Take(std::move(measured));
  return Status::Ok();
}

}  // namespace attndb::internal
