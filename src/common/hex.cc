#include "common/hex.h"

namespace attndb {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

std::optional<uint8_t> DigitValue(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<uint8_t>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<uint8_t>(digit - 'a' + 10);
  if (digit >= 'A' && digit <= 'F') return static_cast<uint8_t>(digit - 'A' + 10);
  return std::nullopt;
}

std::string HexDigits(uint64_t value, size_t num_digits) {
  std::string text(num_digits, '0');
  for (size_t i = num_digits; i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

}  // namespace

std::string HexEncode(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<size_t>(b >> 4)];
    text += kDigits[std::to_integer<size_t>(b & std::byte{15})];
  }
  return text;
}

std::optional<std::vector<std::byte>> HexDecode(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const std::optional<uint8_t> high = DigitValue(text[i]);
    const std::optional<uint8_t> low = DigitValue(text[i + 1]);
    if (!high || !low) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(*high << 4 | *low));
  }
  return bytes;
}

std::string HexU64(uint64_t value) { return HexDigits(value, 16); }
std::string HexU32(uint32_t value) { return HexDigits(value, 8); }

std::optional<uint64_t> ParseHexU64(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (const char digit : text) {
    const size_t digit_value = kDigits.find(digit);
    if (digit_value == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit_value;
  }
  return value;
}

}  // namespace attndb
