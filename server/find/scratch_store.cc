#include "server/find/scratch_store.h"

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX.

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace attndb::server {

Result<ScratchStore> ScratchStore::Open() {
  const char* const parent = std::getenv("TMPDIR");
  std::string folder =
      std::string(parent == nullptr || *parent == '\0' ? "/tmp" : parent) + "/attndb-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return Status::IoError(std::string("cannot make a temporary folder: ") + std::strerror(errno));
  }
  ScratchStore scratch(std::move(folder));
  Result<DB> db =
      DB::Open(scratch.folder_ + "/store", {.query_sample = 0, .background_builds = false});
  if (!db.ok()) return Status::IoError("cannot make a temporary store");
  scratch.db_.emplace(*std::move(db));
  return scratch;
}

ScratchStore::~ScratchStore() {
  db_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace attndb::server
