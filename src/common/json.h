// Reads JSON. nlohmann's parser and writer are templates that take seconds to compile; they are
// instantiated in json.cc alone, for the whole library.
//
// Sources that only write JSON include json_text.h, which needs no header of nlohmann's.
//
// Threads: stateless.
#ifndef ATTNDB_COMMON_JSON_H_
#define ATTNDB_COMMON_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace attndb {

using Json = nlohmann::ordered_json;

// Returns the tree of a text, or a discarded value if the text is not JSON. `callback` is a
// callback of nlohmann's parser.
Json ParseJson(std::string_view text, const Json::parser_callback_t& callback = nullptr);

// Hands the text to `events` part by part. Returns false if an event returns false or the text is
// not JSON.
bool ReadJsonEvents(std::string_view text, nlohmann::json_sax<Json>* events);

// One line; bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const Json& json);

}  // namespace attndb

#endif  // ATTNDB_COMMON_JSON_H_
