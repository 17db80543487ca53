#include "tests/crash/store_image.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/check.h"

namespace attndb::test {

namespace fs = std::filesystem;

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ATTNDB_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteWholeFile(const std::string& path, const std::string& contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  ATTNDB_CHECK(file.good());
}

StoreImage StoreImage::Capture(const std::string& dir) {
  StoreImage image;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    image.files_[entry.path().lexically_relative(dir).string()] =
        ReadWholeFile(entry.path().string());
  }
  return image;
}

uint64_t StoreImage::num_bytes() const {
  uint64_t num_bytes = 0;
  for (const auto& [path, contents] : files_) num_bytes += contents.size();
  return num_bytes;
}

std::vector<std::string> StoreImage::PathsWith(const std::string& ending) const {
  std::vector<std::string> paths;
  for (const auto& [path, contents] : files_) {
    if (path.ends_with(ending)) paths.push_back(path);
  }
  return paths;
}

void StoreImage::Restore(const std::string& dir) const {
  fs::create_directories(dir);
  std::vector<fs::path> strangers;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    if (!files_.contains(entry.path().lexically_relative(dir).string())) {
      strangers.push_back(entry.path());
    }
  }
  for (const fs::path& stranger : strangers) fs::remove(stranger);
  for (const auto& [path, contents] : files_) {
    const fs::path file = fs::path(dir) / path;
    fs::create_directories(file.parent_path());
    WriteWholeFile(file.string(), contents);
  }
}

}  // namespace attndb::test
