// How a chat goes on if its client removed earlier text: the values of the field "edits", and of
// `attndb serve --edits`.
//
// Threads: stateless.
#ifndef ATTNDB_SERVER_CHAT_EDITS_WAY_H_
#define ATTNDB_SERVER_CHAT_EDITS_WAY_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace attndb::server {

enum class Edits : uint8_t {
  kExact,  // The tokens behind a removed piece are run again.
  kCut,    // The tokens behind a removed piece stay as they were computed.
};

// The values of Edits, as messages about a wrong one name them.
inline constexpr std::string_view kEditsNames = "exact or cut";

// Returns what "exact" and "cut" mean; nullopt: another text.
inline std::optional<Edits> EditsNamed(std::string_view name) {
  if (name == "exact") return Edits::kExact;
  if (name == "cut") return Edits::kCut;
  return std::nullopt;
}

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_EDITS_WAY_H_
