#include "cli/common/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace attndb::cli {
namespace {

// Levenshtein's distance, a row of the table at a time.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string Nearest(std::string_view word, std::span<const std::string> names) {
  constexpr size_t kMost = 2;
  std::string nearest;
  size_t least = std::min(kMost + 1, (word.size() + 1) / 2);
  for (const std::string& name : names) {
    if (name.size() > word.size() + kMost || word.size() > name.size() + kMost) continue;
    const size_t distance = Distance(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace attndb::cli
