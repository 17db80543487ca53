#include "engines/llama/chat_json.h"

#include <cstdio>
#include <string_view>

namespace attndb::llama {
namespace {

void AppendJsonString(std::string_view text, std::string* json) {
  *json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') *json += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      *json += escape;
    } else {
      *json += c;
    }
  }
  *json += '"';
}

// The members of an object, without its braces.
Result<std::string_view> MembersOf(std::string_view object) {
  constexpr std::string_view kSpaces = " \t\n\r";
  const auto trim = [&](std::string_view text) {
    const size_t begin = text.find_first_not_of(kSpaces);
    if (begin == std::string_view::npos) return std::string_view();
    return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
  };
  object = trim(object);
  if (object.empty()) return object;
  if (!object.starts_with('{') || !object.ends_with('}') || object.size() < 2) {
    return Status::InvalidArgument("the other members of a message are no JSON object");
  }
  return trim(object.substr(1, object.size() - 2));
}

}  // namespace

Result<std::string> MessagesJson(std::span<const ChatMessage> messages) {
  std::string json = "[";
  for (const ChatMessage& message : messages) {
    json += json.size() == 1 ? R"({"role":)" : R"(,{"role":)";
    AppendJsonString(message.role, &json);
    json += R"(,"content":)";
    if (message.parts.empty()) {
      AppendJsonString(message.content, &json);
    } else {
      json += message.parts;
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::string_view members, MembersOf(message.more));
    if (!members.empty()) json.append(",").append(members);
    json += '}';
  }
  return json + ']';
}

}  // namespace attndb::llama
