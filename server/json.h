// JSON in and out.
#ifndef ATTNDB_SERVER_JSON_H_
#define ATTNDB_SERVER_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::server {

using Json = nlohmann::ordered_json;

inline constexpr size_t kMaxJsonDepth = 128;
inline constexpr size_t kMaxJsonMembers = 256;  // In one object: they are sought one by one.

// A field of a request that may have more members than other objects.
struct WideField {
  std::string_view name;  // A member of the outermost object.
  size_t members = kMaxJsonMembers;
  bool is_deep = false;  // So may all objects inside it.
};

// Errors: kInvalidArgument: not JSON, not UTF-8, or beyond the limits above.
Result<Json> ParseJson(std::string_view text, std::span<const WideField> wide = {});
inline Result<Json> ParseJson(std::string_view text, const WideField& wide) {
  return ParseJson(text, std::span(&wide, 1));
}

// Checks a text that a request has as JSON: no tree is made of it.
// Errors: as ParseJson, and `members` is the limit of each object; with the field's name.
Status CheckJson(const std::string& field, std::string_view text, size_t members);

// Whether a text is JSON, however large it is.
bool IsJson(std::string_view text);

// Returns the tree of a JSON text of the library's own. A source that calls nlohmann's parser takes
// 2 s more to compile.
Json ReadOwnJson(std::string_view text);

// A member's value; null where there is none, or it is null.
const Json* FindMember(const Json& object, const char* name);

// Whether the value of a field asks for nothing: null, false, 0, or what is empty.
bool AsksForNothing(const Json& value);

// The place of a member of what is at `place`: "messages.content". An empty place is the body's.
std::string PlaceOf(const std::string& place, const std::string& member);

// Reads a member that is true or false into *value, which stays as it is where there is none.
// `place`: the object's own, for errors.
// Errors: kInvalidArgument.
Status ReadFlag(const Json& object, const char* name, bool* value, const std::string& place = "");

// Likewise for a text, and for a whole number from `least` to `most`.
Status ReadString(const Json& object, const char* name, std::string* value);
Status ReadCount(const Json& object, const char* name, uint64_t least, uint64_t most,
                 uint64_t* value, const std::string& place = "");

// Returns a whole number as an integer, also if it is written as 40.0 or 1e3: in JSON all of these
// are the same number. Other values come back as they are.
Json WholeNumber(const Json& value);

// Whether a JSON text can hold these bytes as they are.
bool IsUtf8(const std::string& bytes);

// Reads the id of a token, of any vocabulary. False: `value` is none.
bool ReadTokenId(const Json& value, TokenId* token);

// A value as errors show it: its beginning, if it is long.
std::string Shown(const Json& found);
// kInvalidArgument: the field is not as expected.
Status WrongValue(const std::string& field, const std::string& expected, const Json& found);

// One line; bytes that are not UTF-8 become U+FFFD.
std::string ToText(const Json& json);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_JSON_H_
