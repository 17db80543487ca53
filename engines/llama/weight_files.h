// The files that a model's weights are mapped from. They are held open and looked at around each
// pass: weights that change in place would give wrong K and V under the fingerprint of the old
// ones, and no checksum would find them.
//
// Limits:  a file that is cut short while a pass reads it ends the process all the same (SIGBUS):
//          EngineOptions::map_weights.
// Cost:    a system call a file and Check.
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_WEIGHT_FILES_H_
#define ATTNDB_ENGINES_LLAMA_WEIGHT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::llama {

class WeightFiles {
 public:
  WeightFiles() = default;  // None: nothing changes.
  // Errors: kIoError (a file that can't be opened).
  static Result<WeightFiles> Open(const std::vector<std::string>& paths);
  WeightFiles(WeightFiles&& other) noexcept;
  WeightFiles& operator=(WeightFiles&& other) noexcept;
  ~WeightFiles();

  // Whether all files are what they were when they were opened: their size, and when they were
  // written to. One that was removed or replaced is: the weights are still those of the old one.
  // Errors: kIoError, with the file.
  Status Check() const;

 private:
  struct File {
    std::string path;
    int descriptor = -1;
    int64_t num_bytes = 0;
    int64_t written_ns = 0;
  };

  std::vector<File> files_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_WEIGHT_FILES_H_
