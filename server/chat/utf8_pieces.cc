#include "server/chat/utf8_pieces.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace attndb::server {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD.

// A lead byte: the bytes of its character, and the bounds of the second one (Unicode, table 3-7).
struct Lead {
  size_t num_bytes = 0;  // 0: no character begins with the byte.
  uint8_t least = 0x80;
  uint8_t most = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {.num_bytes = 1};
  if (byte >= 0xC2 && byte <= 0xDF) return {.num_bytes = 2};
  if (byte == 0xE0) return {.num_bytes = 3, .least = 0xA0};
  if (byte == 0xED) return {.num_bytes = 3, .most = 0x9F};  // Surrogates are no characters.
  if (byte >= 0xE1 && byte <= 0xEF) return {.num_bytes = 3};
  if (byte == 0xF0) return {.num_bytes = 4, .least = 0x90};
  if (byte == 0xF4) return {.num_bytes = 4, .most = 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {.num_bytes = 4};
  return {};
}

// The first bytes of `text` that are, or begin, the character of `lead`.
size_t CharacterBytesOf(const Lead& lead, std::string_view text) {
  size_t count = 1;
  while (count < lead.num_bytes && count < text.size()) {
    const auto byte = static_cast<uint8_t>(text[count]);
    const bool is_second = count == 1;
    if (byte < (is_second ? lead.least : 0x80) || byte > (is_second ? lead.most : 0xBF)) break;
    ++count;
  }
  return count;
}

}  // namespace

std::string Utf8Pieces::Push(std::string_view bytes) {
  const std::string all = std::exchange(waiting_, "") + std::string(bytes);
  std::string out;
  for (size_t at = 0; at < all.size();) {
    const std::string_view rest = std::string_view(all).substr(at);
    const Lead lead = LeadOf(static_cast<uint8_t>(rest[0]));
    const size_t count = CharacterBytesOf(lead, rest);
    if (count == lead.num_bytes) {
      out += rest.substr(0, count);
    } else if (count == rest.size() && lead.num_bytes > 0) {
      waiting_ = rest;
    } else {
      for (size_t i = 0; i < count; ++i) out += kReplacement;
    }
    at += count;
  }
  return out;
}

std::string Utf8Pieces::Finish() {
  std::string out;
  for (size_t i = 0; i < waiting_.size(); ++i) out += kReplacement;
  waiting_.clear();
  return out;
}

}  // namespace attndb::server
