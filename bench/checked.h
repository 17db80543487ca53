// What benchmarks against the public API share: results that must be there, and a folder that goes.
//
// Errors:  end the process with a message.
// Threads: thread-compatible.
#ifndef ATTNDB_BENCH_CHECKED_H_
#define ATTNDB_BENCH_CHECKED_H_

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "attndb/result.h"

namespace attndb::bench {

inline void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Checked(Result<T> result) {
  Check(result.status());
  return *std::move(result);
}

inline void Expect(bool condition, const char* what) {
  if (!condition) Check(Status::Internal(what));
}

// A folder of its own in $TMPDIR, removed with all that is in it at the end.
class TempFolder {
 public:
  explicit TempFolder(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / (name + "_XXXXXX")).string()) {
    if (mkdtemp(path_.data()) != nullptr) return;
    std::perror(path_.c_str());
    std::exit(1);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_CHECKED_H_
