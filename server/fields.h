// Members of the objects in a request. Errors name a member by its place in the body.
//
// Errors:  kInvalidArgument with the place, what was expected and what was found.
// Threads: stateless.
#ifndef ATTNDB_SERVER_FIELDS_H_
#define ATTNDB_SERVER_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "attndb/result.h"
#include "server/json.h"

namespace attndb::server {

// The place of an entry as Anthropic's interface has it, "messages.0", and as OpenAI's has it,
// "input[0]".
std::string PlaceOf(const std::string& place, size_t index);
std::string EntryOf(const std::string& place, size_t index);

// The error of a field that can't be honoured.
Status RefusedAt(const std::string& place, const std::string& why);

Status CheckObject(const Json& value, const std::string& place);
// A member that is needed.
Result<std::string> NeededText(const Json& object, const std::string& place, const char* name);
// The member "type" of a block, a tool or a choice.
Result<std::string> TypeOf(const Json& object, const std::string& place);
// Members that may be absent.
Result<bool> FlagOf(const Json& object, const std::string& place, const char* name);
Status ReadNumber(const Json& object, const char* name, double least, double most, float* value);
Result<std::optional<uint64_t>> CountOf(const Json& object, const std::string& place,
                                        const char* name, uint64_t least, uint64_t most);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_FIELDS_H_
