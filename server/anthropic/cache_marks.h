// The marks "cache_control" of a request. Every prompt is stored, whether it has one or not: a mark
// says how long the context lives at least.
//
// Errors:  kInvalidArgument with the place: "system.0.cache_control.ttl".
// Threads: one thread.
#ifndef ATTNDB_SERVER_ANTHROPIC_CACHE_MARKS_H_
#define ATTNDB_SERVER_ANTHROPIC_CACHE_MARKS_H_

#include <cstdint>
#include <string>

#include "attndb/status.h"
#include "server/json.h"

namespace attndb::server {

class CacheMarks {
 public:
  // Takes the mark of an object, if it has one. `place`: the object's.
  Status Take(const Json& object, const std::string& place);

  uint64_t min_ttl_seconds() const { return min_ttl_seconds_; }  // 0: there is no mark.

 private:
  uint64_t min_ttl_seconds_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_CACHE_MARKS_H_
