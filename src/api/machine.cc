// Database: what plans are priced by.
#include "api/database.h"
#include "api/measure_machine.h"

namespace attndb::internal {

void Database::TakeMachine() {
  machine_.store(&default_machine_, std::memory_order_release);
  if (planning_.machine || !options_.measure_machine) return;
  std::optional<planner::MachineConstants> kept = hints_.FindMachine(default_machine_);
  MutexLock lock(&machine_mutex_);
  if (kept) KeepMachine(*std::move(kept));
}

void Database::KeepMachine(planner::MachineConstants machine) {
  known_machine_ = std::make_unique<const planner::MachineConstants>(std::move(machine));
  machine_.store(known_machine_.get(), std::memory_order_release);
}

void Database::AskForPrices() {
  const bool may_measure = options_.measure_machine && !options_.read_only && !planning_.machine;
  if (Machine().measured || !may_measure) return;
  if (asked_to_measure_.load(std::memory_order_relaxed) || asked_to_measure_.exchange(true)) return;
  store_->background()->Add(store::kShortLane, {.run = [this](derived::Lanes::Control*) {
                              // Where there is no memory to measure with, the fixed prices must do.
                              (void)MeasureNow();
                              return Status::Ok();
                            }});
}

Status Database::MeasureNow() {
  MutexLock lock(&machine_mutex_);
  if (Machine().measured || planning_.machine) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(planner::MachineConstants measured, MeasureMachine(MeasuredBytes()));
  if (options_.measure_machine && !options_.read_only) hints_.NoteMachine(measured);
  KeepMachine(std::move(measured));
  return Status::Ok();
}

}  // namespace attndb::internal
