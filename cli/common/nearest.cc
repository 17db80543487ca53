#include "cli/common/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

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

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

constexpr size_t kLeastPart = 2;  // Characters of a part of a name that are no accident.

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

std::string BegunBy(std::string_view word, std::span<const std::string> names) {
  const std::string_view letters = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  std::string begun;
  for (const std::string& name : names) {
    if (letters.size() < kLeastPart || !name.starts_with(word)) continue;
    if (!begun.empty()) return "";  // Two begin so: neither is meant for sure.
    begun = name;
  }
  return begun;
}

std::vector<std::string> NamesLike(std::string_view word, std::span<const std::string> names,
                                   size_t most) {
  const std::string sought = Lower(word);
  enum Likeness : size_t { kSame, kBegins, kNear, kHas, kNone };
  const auto likeness = [&](const std::string& name) {
    const std::string lower = Lower(name);
    if (lower == sought) return kSame;
    if (sought.size() >= kLeastPart && lower.starts_with(sought)) return kBegins;
    if (!Nearest(sought, std::span(&lower, 1)).empty()) return kNear;
    if (sought.size() > kLeastPart && lower.find(sought) != std::string::npos) return kHas;
    return kNone;
  };
  Likeness best = kNone;
  std::vector<std::string> like;
  for (const std::string& name : names) {
    const Likeness found = likeness(name);
    if (found == kNone || found > best) continue;
    if (found < best) like.clear();
    best = found;
    like.push_back(name);
  }
  std::ranges::stable_sort(like, {}, &std::string::size);
  like.resize(std::min(like.size(), most));
  return like;
}

}  // namespace attndb::cli
