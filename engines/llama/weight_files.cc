#include "engines/llama/weight_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace attndb::llama {
namespace {

Status FileError(const std::string& path) {
  return Status::IoError("'" + path + "': " + std::generic_category().message(errno));
}

int64_t WrittenNanos(const struct stat& found) {
  return int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec;
}

}  // namespace

Result<WeightFiles> WeightFiles::Open(const std::vector<std::string>& paths) {
  WeightFiles weights;
  for (const std::string& path : paths) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return FileError(path);
    weights.files_.push_back({.path = path, .descriptor = descriptor});
    struct stat found = {};
    if (::fstat(descriptor, &found) != 0) return FileError(path);
    weights.files_.back().num_bytes = found.st_size;
    weights.files_.back().written_ns = WrittenNanos(found);
  }
  return weights;
}

WeightFiles::WeightFiles(WeightFiles&& other) noexcept : files_(std::exchange(other.files_, {})) {}

WeightFiles& WeightFiles::operator=(WeightFiles&& other) noexcept {
  std::swap(files_, other.files_);
  return *this;
}

WeightFiles::~WeightFiles() {
  for (const File& file : files_) (void)::close(file.descriptor);
}

Status WeightFiles::Check() const {
  for (const File& file : files_) {
    struct stat found = {};
    if (::fstat(file.descriptor, &found) != 0) return FileError(file.path);
    if (found.st_size == file.num_bytes && WrittenNanos(found) == file.written_ns) continue;
    return Status::IoError("'" + file.path +
                           "' was written to since the model was opened, so that its weights may "
                           "be others than its fingerprint says; open the model again");
  }
  return Status::Ok();
}

}  // namespace attndb::llama
