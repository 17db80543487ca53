// A store in a temporary folder, which goes with all that is in it.
//
// Errors:  kIoError, without the folder's name: clients may see it.
// Threads: thread-compatible.
#ifndef ATTNDB_SERVER_FIND_SCRATCH_STORE_H_
#define ATTNDB_SERVER_FIND_SCRATCH_STORE_H_

#include <optional>
#include <string>
#include <utility>

#include "attndb/db.h"
#include "attndb/result.h"

namespace attndb::server {

class ScratchStore {
 public:
  // In $TMPDIR, else in /tmp. Nothing is built in the background, and no queries are sampled.
  static Result<ScratchStore> Open();
  ScratchStore(ScratchStore&& other) noexcept
      : folder_(std::exchange(other.folder_, "")), db_(std::move(other.db_)) {}
  ScratchStore& operator=(ScratchStore&&) = delete;
  ~ScratchStore();

  const DB& db() const { return *db_; }

 private:
  explicit ScratchStore(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;  // Empty only after a move.
  std::optional<DB> db_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_FIND_SCRATCH_STORE_H_
