// A whole text as one number.
//
// Errors:  none; a text that is anything else is no number.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_PARSE_NUMBER_H_
#define ATTNDB_CLI_COMMON_PARSE_NUMBER_H_

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace attndb::cli {

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_PARSE_NUMBER_H_
