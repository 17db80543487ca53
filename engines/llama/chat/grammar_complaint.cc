#include "engines/llama/chat/grammar_complaint.h"

#include <algorithm>
#include <cstddef>

#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

constexpr size_t kMostBytes = 300;  // Longer complaints have a part of the grammar in them.

// "line 2, column 7" of a byte; columns count characters.
std::string PlaceOf(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0.
  const auto column =
      std::ranges::count_if(
          before.substr(line_begin),
          [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }) +
      1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// The place for the rest of the grammar, if the complaint ends with that.
std::string WithPlace(std::string_view complaint, std::string_view grammar) {
  constexpr std::string_view kAt = " at ";
  for (size_t at = complaint.find(kAt); at != std::string_view::npos;
       at = complaint.find(kAt, at + 1)) {
    const std::string_view rest = complaint.substr(at + kAt.size());
    if (grammar.ends_with(rest)) {
      return std::string(complaint.substr(0, at + kAt.size())) +
             PlaceOf(grammar, grammar.size() - rest.size());
    }
  }
  return std::string(FirstUtf8Bytes(complaint, kMostBytes));
}

}  // namespace

std::string GrammarComplaint(std::string_view printed, std::string_view grammar) {
  constexpr std::string_view kMark = "error parsing grammar: ";
  const std::string tail = "\n\n" + std::string(grammar) + "\n";
  std::string_view complaint = printed;
  if (const size_t mark = printed.find(kMark); mark != std::string_view::npos) {
    complaint.remove_prefix(mark + kMark.size());
    // The last one: the complaint may hold some of the grammar, too.
    const size_t end = complaint.rfind(tail);
    if (end != std::string_view::npos) complaint = complaint.substr(0, end);
    return WithPlace(complaint, grammar);
  }
  while (complaint.ends_with('\n')) complaint.remove_suffix(1);
  return complaint.empty() ? "llama.cpp does not say why" : WithPlace(complaint, grammar);
}

}  // namespace attndb::llama
