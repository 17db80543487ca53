// Database: what plans are priced by.
#include "db/database.h"
#include "db/measure_machine.h"

namespace attndb::internal {

const planner::MachineConstants& Database::Machine(bool needed) {
  const planner::MachineConstants* machine = machine_.load(std::memory_order_acquire);
  const bool may_measure = needed && options_.measure_machine && !options_.read_only;
  if (machine != nullptr && (machine->measured || planning_.machine || !may_measure)) {
    return *machine;
  }
  if (planning_.machine) return *planning_.machine;
  MutexLock lock(&machine_mutex_);
  if (known_machine_ != nullptr) return *known_machine_;
  if (default_machine_ == nullptr) {
    default_machine_ = std::make_unique<const planner::MachineConstants>(DefaultMachine());
    machine_.store(default_machine_.get(), std::memory_order_release);
    if (options_.measure_machine) {
      if (std::optional<planner::MachineConstants> kept = hints_.FindMachine(*default_machine_)) {
        KeepMachine(*std::move(kept));
        return *known_machine_;
      }
    }
  }
  if (!may_measure) return *default_machine_;
  // Where there is no memory to measure with, the fixed prices must do: until the next time.
  Result<planner::MachineConstants> measured = MeasureMachine(MeasuredBytes());
  if (!measured.ok()) return *default_machine_;
  hints_.NoteMachine(*measured);
  KeepMachine(*std::move(measured));
  return *known_machine_;
}

void Database::KeepMachine(planner::MachineConstants machine) {
  known_machine_ = std::make_unique<const planner::MachineConstants>(std::move(machine));
  machine_.store(known_machine_.get(), std::memory_order_release);
}

Status Database::MeasureNow() {
  if (Machine(/*needed=*/true).measured || planning_.machine) return Status::Ok();
  MutexLock lock(&machine_mutex_);
  if (known_machine_ != nullptr) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(planner::MachineConstants measured, MeasureMachine(MeasuredBytes()));
  KeepMachine(std::move(measured));
  return Status::Ok();
}

}  // namespace attndb::internal
