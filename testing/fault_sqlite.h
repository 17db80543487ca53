// Makes SQLite's own files fail on demand, as FaultFileSystem does for those of storage: the n-th
// operation, once or from then on.
//
// Stands in for SQLite's "unix" VFS in this process, so that the catalog's checking VFS stands upon
// it. One for the process: SQLite has one list of VFSes.
//
// Threads: thread-safe.
#ifndef ATTNDB_TESTING_FAULT_SQLITE_H_
#define ATTNDB_TESTING_FAULT_SQLITE_H_

#include <cstdint>

#include "testing/fault_file_system.h"

namespace attndb::test {

class SqliteFaults {
 public:
  // Takes effect for databases that are opened afterwards. REQUIRES: at the first call, that no
  // store was opened in this process yet.
  static SqliteFaults& Install();

  // Starts counting from 0 again. removes_fail is not looked at.
  void SetPlan(const FaultFileSystem::Plan& plan);
  uint64_t num_operations() const;
  uint64_t num_faults() const;

 private:
  SqliteFaults() = default;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_FAULT_SQLITE_H_
