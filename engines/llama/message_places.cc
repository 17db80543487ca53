#include "engines/llama/message_places.h"

#include <algorithm>
#include <array>

namespace attndb::llama {
namespace {

constexpr std::string_view kSpaces = " \t\n\v\f\r";
// A prompt that leaves out more contents is not searched any further: each search reads all of it.
constexpr size_t kMostMissing = 64;

std::string_view WithoutFront(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpaces), text.size()));
}

std::string_view WithoutBack(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

// A content as a template may show it, the longest first.
std::array<std::string_view, 4> FormsOf(std::string_view content) {
  return {content, WithoutBack(content), WithoutFront(content), WithoutFront(WithoutBack(content))};
}

// The range of content `idx` in the prompt if it begins there and `behind` comes behind it.
std::optional<ByteRange> RangeAt(std::string_view prompt, size_t at, std::string_view content,
                                 std::string_view behind) {
  for (const std::string_view form : FormsOf(content)) {
    if (prompt.substr(at).starts_with(form) &&
        prompt.substr(at + form.size()).starts_with(behind)) {
      return ByteRange{at, at + form.size()};
    }
  }
  return std::nullopt;
}

// The last places of the contents that have a range, searched from the end.
bool AreLast(std::string_view prompt, std::span<const ByteRange> ranges) {
  size_t end = prompt.size();
  for (size_t i = ranges.size(); i-- > 0;) {
    const size_t bytes = ranges[i].end - ranges[i].begin;
    if (bytes == 0) continue;
    const std::string_view words = prompt.substr(ranges[i].begin, bytes);
    const std::string_view rest = prompt.substr(0, end);
    if (rest.rfind(words) != ranges[i].begin) return false;
    end = ranges[i].begin;
  }
  return true;
}

}  // namespace

std::string Placeholder(size_t idx) { return kPlaceholder + std::to_string(idx) + "end"; }

std::vector<ByteRange> FirstPlaces(std::string_view prompt, std::span<const std::string> contents) {
  std::vector<ByteRange> ranges;
  size_t begin = 0;
  size_t num_missing = 0;
  for (const std::string& content : contents) {
    ByteRange range = {begin, begin};
    std::string_view words = content;
    size_t at = std::string_view::npos;
    if (num_missing < kMostMissing) {
      at = prompt.find(words, begin);
      if (at == std::string_view::npos) {
        words = WithoutFront(WithoutBack(words));
        at = prompt.find(words, begin);
      }
      if (at == std::string_view::npos) ++num_missing;
    }
    if (!words.empty() && at != std::string_view::npos) range = {at, at + words.size()};
    begin = range.end;
    ranges.push_back(range);
  }
  return ranges;
}

std::optional<std::vector<ByteRange>> PlacesByWords(std::string_view prompt,
                                                    std::span<const std::string> contents) {
  std::vector<ByteRange> ranges = FirstPlaces(prompt, contents);
  if (!AreLast(prompt, ranges)) return std::nullopt;
  return ranges;
}

std::optional<std::vector<ByteRange>> PlacesByMarkup(std::string_view prompt,
                                                     std::string_view markup,
                                                     std::span<const std::string> contents) {
  // Where the placeholders are in the markup, in order. One that is not there is not shown.
  std::vector<size_t> shown;
  std::vector<size_t> places;
  size_t from = 0;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i].empty()) continue;
    const std::string placeholder = Placeholder(i);
    const size_t at = markup.find(placeholder, from);
    if (at == std::string_view::npos) continue;
    shown.push_back(i);
    places.push_back(at);
    from = at + placeholder.size();
  }
  std::vector<ByteRange> ranges(contents.size());
  size_t at = shown.empty() ? markup.size() : places.front();
  if (!prompt.starts_with(markup.substr(0, at))) return std::nullopt;
  for (size_t i = 0; i < shown.size(); ++i) {
    const size_t begin = places[i] + Placeholder(shown[i]).size();
    const size_t end = i + 1 < shown.size() ? places[i + 1] : markup.size();
    const std::string_view behind = markup.substr(begin, end - begin);
    const auto range = RangeAt(prompt, at, contents[shown[i]], behind);
    if (!range) return std::nullopt;
    ranges[shown[i]] = *range;
    at = range->end + behind.size();
  }
  if (at != prompt.size()) return std::nullopt;
  for (size_t i = 0, last = 0; i < ranges.size(); ++i) {
    if (ranges[i].end == 0) ranges[i] = {last, last};
    last = ranges[i].end;
  }
  return ranges;
}

}  // namespace attndb::llama
