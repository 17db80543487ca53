#include "cli/common/gb_list.h"

#include <cmath>
#include <optional>
#include <string>

#include "cli/common/parse_number.h"

namespace attndb::cli {
namespace {

constexpr double kMaxGb = 1e9;

std::optional<uint64_t> ParseSize(std::string_view text) {
  double unit = 1e9;
  if (text.ends_with("TB")) unit = 1e12;
  if (text.ends_with("TB") || text.ends_with("GB")) text.remove_suffix(2);
  const std::optional<double> number = ParseNumber<double>(text);
  if (!number || !(*number >= 0 && *number * unit <= kMaxGb * 1e9)) return std::nullopt;
  return static_cast<uint64_t>(std::llround(*number * unit));
}

}  // namespace

Result<std::vector<uint64_t>> ParseGbList(std::string_view flag, std::string_view text) {
  std::vector<uint64_t> sizes;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::optional<uint64_t> bytes = ParseSize(rest.substr(0, comma));
    if (!bytes) {
      return Status::InvalidArgument(std::string(flag) + " '" + std::string(text) +
                                     "': expected sizes in GB, as in 64,128 or 1.5TB, found '" +
                                     std::string(rest.substr(0, comma)) + "'");
    }
    sizes.push_back(*bytes);
    if (comma == std::string_view::npos) return sizes;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace attndb::cli
