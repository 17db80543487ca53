#include "api/kv_file/cut_text.h"

#include <charconv>
#include <optional>

#include "common/quote.h"

namespace attndb::internal {
namespace {

// Takes a whole number, and `end` behind it if that is not 0, off the text.
std::optional<uint64_t> TakeNumber(std::string_view* text, char end) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  if (end == 0) return value;
  if (!text->starts_with(end)) return std::nullopt;
  text->remove_prefix(1);
  return value;
}

bool TakeSign(std::string_view* text, char sign) {
  if (!text->starts_with(sign)) return false;
  text->remove_prefix(1);
  return true;
}

std::optional<Cut> TakeCut(std::string_view* text) {
  const std::optional<uint64_t> at = TakeNumber(text, ':');
  if (!at) return std::nullopt;
  Cut cut = {*at, {}};
  do {
    const std::optional<uint64_t> begin = TakeNumber(text, '-');
    const std::optional<uint64_t> end = begin ? TakeNumber(text, 0) : std::nullopt;
    if (!end) return std::nullopt;
    cut.dropped.push_back({*begin, *end});
  } while (TakeSign(text, ','));
  return cut;
}

}  // namespace

std::string FormatCuts(std::span<const Cut> cuts) {
  std::string text;
  for (const Cut& cut : cuts) {
    text += (text.empty() ? "" : ";") + std::to_string(cut.at);
    char sign = ':';
    for (const TokenRange& range : cut.dropped) {
      text += sign + std::to_string(range.begin) + "-" + std::to_string(range.end);
      sign = ',';
    }
  }
  return text;
}

Result<std::vector<Cut>> ParseCuts(std::string_view text) {
  std::vector<Cut> cuts;
  std::string_view rest = text;
  do {
    std::optional<Cut> cut = TakeCut(&rest);
    if (!cut) break;
    cuts.push_back(*std::move(cut));
  } while (TakeSign(&rest, ';'));
  if (cuts.empty() || !rest.empty() || FormatCuts(cuts) != text) {
    return Status::InvalidArgument("cuts is " + Quoted(text) +
                                   ", expected AT:BEGIN-END,..;.. in whole numbers");
  }
  return cuts;
}

}  // namespace attndb::internal
