#include "cli/common/completion.h"

#include <algorithm>

namespace attndb::cli {

ValueKind KindOf(const std::string& value) {
  if (value.empty()) return ValueKind::kNone;
  if (value == "CONTEXT" || value == "PATTERN") return ValueKind::kContext;
  if (value == "FILE" || value == "MODEL") return ValueKind::kFile;
  if (value == "PATH") return ValueKind::kFolder;
  return value.find('|') == std::string::npos ? ValueKind::kOther : ValueKind::kChoice;
}

std::string ChoicesOf(std::string value) {
  std::ranges::replace(value, '|', ' ');
  return value;
}

bool IsCommon(const CommandTree& program, const OptionEntry& option) {
  const auto is_same = [&option](const OptionEntry& other) { return other.names == option.names; };
  return !option.names.empty() && std::ranges::any_of(program.options, is_same);
}

std::string WithProgram(std::string_view text, const std::string& program) {
  constexpr std::string_view kPlace = "PROGRAM";
  std::string function = program;
  std::ranges::replace(function, '-', '_');
  std::string named(text);
  for (size_t at = named.find(kPlace); at != std::string::npos; at = named.find(kPlace, at)) {
    const bool is_function = at > 0 && named[at - 1] == '_';
    named.replace(at, kPlace.size(), is_function ? function : program);
  }
  return named;
}

}  // namespace attndb::cli
