#include "cli/common/temp_dir.h"

#include <stdlib.h>  // NOLINT: mkdtemp is POSIX.

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace attndb::cli {

Result<TempDir> TempDir::Create(const std::string& parent) {
  std::string path = (parent.empty() ? TempFolder() : parent) + "/attndb-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Status::IoError("cannot make a folder '" + path + "': " + std::strerror(errno));
  }
  return TempDir(std::move(path));
}

TempDir::~TempDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder() {
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

}  // namespace attndb::cli
