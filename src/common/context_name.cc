#include "attndb/context_name.h"

#include <cstdint>

#include "common/quote.h"
#include "common/utf8.h"

namespace attndb {
namespace {

constexpr std::string_view kPunctuation = "._:/@+-";

bool IsNameChar(const Utf8Char& c) {
  if (c.num_bytes == 0) return false;
  if (c.code_point >= 0x80) return IsVisible(c.code_point);
  const char ascii = static_cast<char>(c.code_point);
  return (ascii >= 'A' && ascii <= 'Z') || (ascii >= 'a' && ascii <= 'z') ||
         (ascii >= '0' && ascii <= '9') || kPunctuation.find(ascii) != std::string_view::npos;
}

}  // namespace

Status CheckContextName(std::string_view name) {
  bool is_good = !name.empty() && name.size() <= kMaxContextNameBytes;
  for (std::string_view rest = name; is_good && !rest.empty();) {
    const Utf8Char c = FirstUtf8Char(rest);
    is_good = IsNameChar(c);
    rest.remove_prefix(is_good ? c.num_bytes : 0);
  }
  if (is_good) return Status::Ok();
  return Status::InvalidArgument("context name " + Quoted(name) + ": expected 1 to " +
                                 std::to_string(kMaxContextNameBytes) +
                                 " bytes of letters, digits and " + std::string(kPunctuation));
}

std::string IdName(ContextId id) {
  return std::string("#").append(std::to_string(static_cast<int64_t>(id)));
}

}  // namespace attndb
