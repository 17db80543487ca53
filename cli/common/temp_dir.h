// A folder for the time of a command; goes with all that is in it.
//
// Errors:  kIoError.
// Threads: thread-compatible.
#ifndef ATTNDB_CLI_COMMON_TEMP_DIR_H_
#define ATTNDB_CLI_COMMON_TEMP_DIR_H_

#include <string>
#include <utility>

#include "attndb/result.h"

namespace attndb::cli {

class TempDir {
 public:
  // In `parent`; empty = TempFolder().
  static Result<TempDir> Create(const std::string& parent);
  TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir();

  const std::string& path() const { return path_; }

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}

  std::string path_;  // Empty only after a move.
};

// $TMPDIR, else /tmp.
std::string TempFolder();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TEMP_DIR_H_
