#include "attndb/fingerprint.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "common/hex.h"
#include "common/quote.h"

namespace attndb {
namespace {

constexpr std::string_view kHexPrefix = "hex:";

bool IsPrintable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

std::string FingerprintText(std::string_view fingerprint) {
  if (std::ranges::all_of(fingerprint, IsPrintable) && !fingerprint.starts_with(kHexPrefix)) {
    return std::string(fingerprint);
  }
  return std::string(kHexPrefix) + HexEncode(std::as_bytes(std::span(fingerprint)));
}

Result<std::string> ParseFingerprint(std::string_view text) {
  if (text.empty()) return Status::InvalidArgument("fingerprint: expected some text, found none");
  if (!text.starts_with(kHexPrefix)) return std::string(text);
  const std::optional<std::vector<std::byte>> bytes = HexDecode(text.substr(kHexPrefix.size()));
  if (!bytes || bytes->empty()) {
    return Status::InvalidArgument("fingerprint " + Quoted(text) +
                                   ": expected pairs of hexadecimal digits after 'hex:'");
  }
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace attndb
