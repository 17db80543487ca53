// All files of a store in memory, to put them back as they were after a test has damaged them.
//
// Errors:  end the process: a test can't go on without its files.
// Threads: thread-compatible.
#ifndef ATTNDB_TESTS_CRASH_STORE_IMAGE_H_
#define ATTNDB_TESTS_CRASH_STORE_IMAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attndb::test {

class StoreImage {
 public:
  // By path relative to the store.
  using Files = std::map<std::string, std::string>;

  // Reads every file under `dir`.
  static StoreImage Capture(const std::string& dir);

  const Files& files() const { return files_; }
  uint64_t num_bytes() const;
  // Files whose path ends so.
  std::vector<std::string> PathsWith(const std::string& ending) const;

  // Makes `dir` hold exactly these files.
  void Restore(const std::string& dir) const;

 private:
  Files files_;
};

std::string ReadWholeFile(const std::string& path);
void WriteWholeFile(const std::string& path, const std::string& contents);

}  // namespace attndb::test

#endif  // ATTNDB_TESTS_CRASH_STORE_IMAGE_H_
