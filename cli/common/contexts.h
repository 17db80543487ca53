// The contexts that commands list and change: those of a store, or of a server.
//
// Errors:  as DB; through a server also kIoError (no server) and kCancelled (interrupted).
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_CONTEXTS_H_
#define ATTNDB_CLI_COMMON_CONTEXTS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/stats.h"
#include "cli/environment.h"

namespace attndb::cli {

struct ContextList {
  std::vector<ContextInfo> contexts;  // Oldest first.
  uint64_t file_bytes = 0;            // On disk, shared segments once.
  uint64_t quota_bytes = 0;           // 0 = none.
};

class Contexts {
 public:
  virtual ~Contexts() = default;

  virtual Result<ContextList> List() = 0;
  // `context`: a name, or "#id"; here and below.
  virtual Result<ContextInfo> Describe(const std::string& context) = 0;
  virtual Status Pin(const std::string& context, bool pinned) = 0;
  virtual Status SetTtl(const std::string& context, std::optional<std::chrono::seconds> ttl) = 0;
  virtual Status Rename(const std::string& context, const std::string& name) = 0;
  virtual Status Drop(const std::string& context) = 0;
};

// The context that Describe found; none if it does not exist. Errors: all others.
Result<std::optional<ContextInfo>> IfThere(Result<ContextInfo> found);

// The contexts whose name matches a shell pattern: "book-*" (fnmatch(3)); all if it is empty.
std::vector<ContextInfo> Matching(std::vector<ContextInfo> contexts, const std::string& pattern);
// Whether a name is a pattern: names contain none of "*?[".
bool IsPattern(const std::string& name);

enum class Access : uint8_t { kRead, kWrite };

// Opens the contexts of the store or of the server that the user names. `access` is for a store.
Result<std::unique_ptr<Contexts>> OpenContexts(Environment* env, Access access);

// For Program::guess: similar names of contexts for a name that was not found.
std::string GuessContext(Environment* env, const Status& failure);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_CONTEXTS_H_
