// A directory of its own for a test; removed with everything in it at the end.
//
// Errors:  ends the process if the system gives no directory.
// Threads: thread-compatible.
#ifndef ATTNDB_TESTING_TEMP_DIR_H_
#define ATTNDB_TESTING_TEMP_DIR_H_

#include <string>

namespace attndb::test {

class TempDir {
 public:
  TempDir();
  // On a file system in memory, where the machine has one: for tests of thousands of syncs whose
  // subject is not the disk.
  static TempDir InMemory();
  // In the folder `parent`.
  static TempDir In(const std::string& parent) { return TempDir(parent); }
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // `path()`/`name`.
  std::string File(const std::string& name) const { return path_ + '/' + name; }

 private:
  explicit TempDir(const std::string& parent);

  std::string path_;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_TEMP_DIR_H_
