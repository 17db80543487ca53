#include "cli/common/display_width.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>

namespace attndb::cli {
namespace {

struct CodePoints {
  uint32_t first;
  uint32_t last;
};

// Characters of two columns. Both lists ascend.
constexpr std::array<CodePoints, 81> kWide = {
    {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
     {0x23F0, 0x23F0},   {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
     {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
     {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
     {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
     {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
     {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},
     {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},
     {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
     {0x3041, 0x3247},   {0x3250, 0x4DBF},   {0x4E00, 0xA4C6},   {0xA960, 0xA97C},
     {0xAC00, 0xD7A3},   {0xF900, 0xFAD9},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6B},
     {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x1B2FB}, {0x1F004, 0x1F004},
     {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A}, {0x1F200, 0x1F320},
     {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA},
     {0x1F3CF, 0x1F3D3}, {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E},
     {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC}, {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E},
     {0x1F550, 0x1F567}, {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4},
     {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2},
     {0x1F6D5, 0x1F6DF}, {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7F0},
     {0x1F90C, 0x1F93A}, {0x1F93C, 0x1F945}, {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAF6},
     {0x20000, 0x3134A}}};

// Characters that stand on the one before.
constexpr std::array<CodePoints, 28> kCombining = {
    {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},    {0x5BF, 0x5BF},   {0x5C1, 0x5C2},
     {0x5C4, 0x5C5},   {0x610, 0x61A},   {0x64B, 0x65F},    {0x670, 0x670},   {0x6D6, 0x6DC},
     {0x900, 0x902},   {0x93C, 0x93C},   {0x941, 0x948},    {0x94D, 0x94D},   {0xE31, 0xE31},
     {0xE34, 0xE3A},   {0xE47, 0xE4E},   {0x1160, 0x11FF},  {0x1AB0, 0x1ACE}, {0x1DC0, 0x1DFF},
     {0x200B, 0x200F}, {0x2060, 0x2064}, {0x20D0, 0x20F0},  {0x3099, 0x309A}, {0xFE00, 0xFE0F},
     {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}}};

bool Holds(std::span<const CodePoints> ranges, uint32_t code_point) {
  const auto after = std::ranges::upper_bound(ranges, code_point, {}, &CodePoints::first);
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

// Bytes of the character that `text` begins with, by its first byte; and its code point.
size_t FirstCharacter(std::string_view text, uint32_t* code_point) {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t num_bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  *code_point = first;
  if (num_bytes == 1 || num_bytes > text.size()) return 1;
  uint32_t value = first & (0x7FU >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80U) return 1;
    value = value << 6U | (byte & 0x3FU);
  }
  *code_point = value;
  return num_bytes;
}

size_t WidthOf(uint32_t code_point) {
  if (code_point < kCombining.front().first) return 1;
  if (Holds(kCombining, code_point)) return 0;
  return Holds(kWide, code_point) ? 2 : 1;
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    uint32_t code_point = 0;
    text.remove_prefix(FirstCharacter(text, &code_point));
    width += WidthOf(code_point);
  }
  return width;
}

std::string CutToWidth(std::string_view text, size_t max_width) {
  if (DisplayWidth(text) <= max_width) return std::string(text);
  size_t end = 0;
  for (size_t width = 0; end < text.size();) {
    uint32_t code_point = 0;
    const size_t num_bytes = FirstCharacter(text.substr(end), &code_point);
    width += WidthOf(code_point);
    if (width + 1 > max_width) break;  // The last column is the ellipsis'.
    end += num_bytes;
  }
  return std::string(text.substr(0, end)) + "\u2026";
}

}  // namespace attndb::cli
