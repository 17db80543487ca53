#include "store/catalog/names.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "common/quote.h"

namespace attndb::store {
namespace {

constexpr size_t kMaxTenantBytes = 64;

bool IsTenantChar(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

Status CheckTenantName(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= kMaxTenantBytes;
  if (fits && std::ranges::all_of(name, IsTenantChar)) return {};
  return Status::InvalidArgument("tenant name " + Quoted(name) + ": expected 1 to " +
                                 std::to_string(kMaxTenantBytes) + " of A-Z, a-z, 0-9 and ._-");
}

std::optional<ContextNumber> ParseContextNumber(std::string_view text) {
  if (text.size() < 2 || text[0] != '#' || text[1] < '1' || text[1] > '9') return std::nullopt;
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<ContextNumber>(number);
}

}  // namespace attndb::store
