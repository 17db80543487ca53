#include "testing/temp_dir.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "common/check.h"

namespace attndb::test {

TempDir::TempDir() : TempDir(std::filesystem::temp_directory_path().string()) {}

TempDir::TempDir(const std::string& parent) : path_(parent + "/attndb_test_XXXXXX") {
  ATTNDB_CHECK(::mkdtemp(path_.data()) != nullptr);
}

TempDir TempDir::InMemory() {
  constexpr const char* kMemoryFolder = "/dev/shm";
  if (::access(kMemoryFolder, W_OK | X_OK) != 0) return TempDir();
  return TempDir(kMemoryFolder);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace attndb::test
