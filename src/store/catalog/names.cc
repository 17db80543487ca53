#include "store/catalog/names.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace attndb::store {
namespace {

constexpr size_t kMaxTenantBytes = 64;
constexpr size_t kMaxContextBytes = 128;

bool IsNameChar(char c, std::string_view punctuation) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         punctuation.find(c) != std::string_view::npos;
}

// A name in a message: nothing that a terminal would act upon, and not too much of it.
std::string Shown(std::string_view name) {
  std::string shown(name.substr(0, kMaxContextBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "\"" + shown + (name.size() > kMaxContextBytes ? "...\"" : "\"");
}

Status CheckName(std::string_view what, std::string_view name, size_t max_bytes,
                 std::string_view punctuation) {
  const bool fits = !name.empty() && name.size() <= max_bytes;
  if (fits && std::ranges::all_of(name, [&](char c) { return IsNameChar(c, punctuation); })) {
    return {};
  }
  return Status::InvalidArgument(std::string(what) + " name " + Shown(name) + ": expected 1 to " +
                                 std::to_string(max_bytes) + " of A-Z, a-z, 0-9 and " +
                                 std::string(punctuation));
}

}  // namespace

Status CheckTenantName(std::string_view name) {
  return CheckName("tenant", name, kMaxTenantBytes, "._-");
}

Status CheckContextName(std::string_view name) {
  return CheckName("context", name, kMaxContextBytes, "._:/@+-");
}

std::optional<ContextId> ParseContextId(std::string_view text) {
  if (text.size() < 2 || text[0] != '#' || text[1] < '1' || text[1] > '9') return std::nullopt;
  int64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, id);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<ContextId>(id);
}

}  // namespace attndb::store
