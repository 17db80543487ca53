// Knowledge that a store has learned: the times of its machines (planner::MachineConstants), and
// the needs of its contexts' heads (planner::HeadStatistics). It is advice for the planner, never
// truth: a missing, damaged or foreign file only costs time.
//
// On disk: hints.json beside the catalog, at most kMaxFileBytes; written whole, under another name
//          first. Not synced: a crash may lose it. Format: docs/formats/hints.md.
// Errors:  none. Data that can't be read or written counts as missing.
// Threads: thread-safe.
#ifndef ATTNDB_PRICES_HINTS_H_
#define ATTNDB_PRICES_HINTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/types.h"
#include "common/mutex.h"
#include "planner/learned_state.h"
#include "planner/machine_constants.h"
#include "storage/io/file_system.h"

namespace attndb::internal {

using ContextStatistics = std::vector<std::vector<planner::HeadStatistics>>;  // [layer][kv head]

class Hints {
 public:
  static constexpr uint64_t kMaxFileBytes = 16 << 20;
  static constexpr size_t kMaxContexts = 64;  // The newest contexts are kept.
  static constexpr size_t kMaxMachines = 16;

  // `file_system` must outlive the hints. Reads the file of folder `dir`, if it is there.
  Hints(storage::FileSystem* file_system, const std::string& dir);

  // Constants that were measured on a machine like `machine`: processor, ISA, number of threads.
  std::optional<planner::MachineConstants> FindMachine(
      const planner::MachineConstants& machine) const ATTNDB_EXCLUDES(mutex_);
  void NoteMachine(const planner::MachineConstants& machine) ATTNDB_EXCLUDES(mutex_);

  std::optional<ContextStatistics> FindContext(ContextId context) const ATTNDB_EXCLUDES(mutex_);
  void NoteContext(ContextId context, const ContextStatistics& statistics) ATTNDB_EXCLUDES(mutex_);

  // Writes the file if anything was noted since the last Save.
  void Save() ATTNDB_EXCLUDES(mutex_);

 private:
  struct Context {
    ContextId id = ContextId::kNone;
    ContextStatistics statistics;
  };

  void Load() ATTNDB_EXCLUDES(mutex_);
  Status Write(std::string_view text) const;

  storage::FileSystem* const file_system_;
  const std::string path_;

  mutable Mutex mutex_;                                                        // A leaf.
  std::vector<planner::MachineConstants> machines_ ATTNDB_GUARDED_BY(mutex_);  // Oldest first.
  std::vector<Context> contexts_ ATTNDB_GUARDED_BY(mutex_);                    // Oldest first.
  bool changed_ ATTNDB_GUARDED_BY(mutex_) = false;
};

}  // namespace attndb::internal

#endif  // ATTNDB_PRICES_HINTS_H_
