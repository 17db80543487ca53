// Fields of requests in Anthropic's form: errors name a field by its place, "messages.0.content".
//
// Errors:  kInvalidArgument with the place, what was expected and what was found.
// Threads: stateless, but for CacheMarks.
#ifndef ATTNDB_SERVER_ANTHROPIC_FIELDS_H_
#define ATTNDB_SERVER_ANTHROPIC_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "attndb/result.h"
#include "server/json.h"

namespace attndb::server {

// The place of a member, or of an entry, of what is at `place`. An empty place is the body's.
std::string PlaceOf(const std::string& place, const std::string& member);
std::string PlaceOf(const std::string& place, size_t index);

// What is at `place` can't be done.
Status RefusedAt(const std::string& place, const std::string& why);

Status CheckObject(const Json& value, const std::string& place);
// A member that is needed.
Result<std::string> NeededText(const Json& object, const std::string& place, const char* name);
// The member "type" of a block, a tool or a choice.
Result<std::string> TypeOf(const Json& object, const std::string& place);
// Members that may be absent.
Result<bool> FlagOf(const Json& object, const std::string& place, const char* name);
Result<std::optional<double>> NumberOf(const Json& object, const char* name, double least,
                                       double most);
Result<std::optional<uint64_t>> CountOf(const Json& object, const std::string& place,
                                        const char* name, uint64_t least, uint64_t most);

// The marks "cache_control" of a request. Every prompt is stored, whether it has one or not: a mark
// says how long the context lives at least.
class CacheMarks {
 public:
  // Takes the mark of an object, if it has one.
  Status Take(const Json& object, const std::string& place);

  uint64_t min_ttl_seconds() const { return min_ttl_seconds_; }  // 0: there is no mark.

 private:
  uint64_t min_ttl_seconds_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_FIELDS_H_
