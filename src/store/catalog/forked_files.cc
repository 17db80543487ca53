#include "store/catalog/forked_files.h"

#include <sys/stat.h>

#include <set>

#include "common/process_state.h"

namespace attndb::store {
namespace {

using File = std::pair<uint64_t, uint64_t>;

struct OpenFiles {
  std::multiset<File> own;
  std::set<File> inherited;
  void BeginFork() {
    inherited.insert(own.begin(), own.end());
    own.clear();
  }
};

}  // namespace

FileInUse::~FileInUse() {
  ProcessState<OpenFiles>::Use([this](OpenFiles* files) {
    if (const auto found = files->own.find(file_); found != files->own.end())
      files->own.erase(found);
  });
}

Status FileInUse::Begin(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Status::Ok();
  file_ = {info.st_dev, info.st_ino};
  return ProcessState<OpenFiles>::Use([&](OpenFiles* files) {
    if (files->inherited.contains(file_)) {
      return Status::FailedPrecondition(
          path +
          ": was open when this process was forked off, and a fork has no part in its locks; open "
          "it in a process that is started anew, or close it before the fork");
    }
    files->own.insert(file_);
    return Status::Ok();
  });
}

}  // namespace attndb::store
