// The part of `plot` that needs a model: a stored context becomes a KV file with q. A build without
// an engine has one that says so.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_CONTEXT_CAPTURE_H_
#define ATTNDB_CLI_COMMON_CONTEXT_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "attndb/result.h"
#include "cli/environment.h"
#include "cli/flags.h"

namespace attndb::cli {

class ContextCapture {
 public:
  virtual ~ContextCapture() = default;

  virtual void AddFlags(Flags* flags) = 0;

  // Writes `context` to the new file `path`. Runs its last `num_queries` tokens again, on the
  // stored earlier ones, to get their q.
  virtual Status Run(Environment* env, const std::string& context, uint64_t num_queries,
                     const std::string& path) = 0;
};

// context_capture.cc, or no_engine.cc.
std::unique_ptr<ContextCapture> MakeContextCapture();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CONTEXT_CAPTURE_H_
