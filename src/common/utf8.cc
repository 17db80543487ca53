#include "common/utf8.h"

#include <algorithm>
#include <array>

namespace attndb {
namespace {

struct CodePoints {
  uint32_t first;
  uint32_t last;
};

// Characters that are invisible, or change the look of their neighbours: Unicode's categories Cc,
// Cf, Zs, Zl, Zp, Co and noncharacters.
constexpr std::array<CodePoints, 19> kHidden = {{
    {0x0, 0xA0},      {0xAD, 0xAD},     {0x34F, 0x34F},   {0x600, 0x605},   {0x61C, 0x61C},
    {0x6DD, 0x6DD},   {0x70F, 0x70F},   {0x115F, 0x1160}, {0x1680, 0x1680}, {0x180B, 0x180F},
    {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000}, {0x3164, 0x3164},
    {0xD800, 0xF8FF}, {0xFDD0, 0xFDEF}, {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB},
}};
constexpr uint32_t kFirstUnused = 0xE0000;  // From here on: tags, private use.

}  // namespace

Utf8Char FirstUtf8Char(std::string_view text) {
  const auto byte = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (text.empty()) return {};
  if (first < 0x80) return {first, 1};
  if (first < 0xC2 || first > 0xF4) return {};
  const size_t num_bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  uint32_t code_point = first & (0xFFU >> (num_bytes + 1));
  for (size_t i = 1; i < num_bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kLeast[num_bytes] || code_point > 0x10FFFF || is_surrogate) return {};
  return {code_point, num_bytes};
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t num_bytes = FirstUtf8Char(text).num_bytes;
    if (num_bytes == 0) return false;
    text.remove_prefix(num_bytes);
  }
  return true;
}

bool IsVisible(uint32_t code_point) {
  if (code_point >= kFirstUnused || (code_point & 0xFFFE) == 0xFFFE) return false;
  return std::ranges::none_of(kHidden, [code_point](const CodePoints& hidden) {
    return code_point >= hidden.first && code_point <= hidden.last;
  });
}

}  // namespace attndb
