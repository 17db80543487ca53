#include "cli/common/table.h"

#include <algorithm>
#include <utility>

#include "cli/common/display_width.h"

namespace attndb::cli {
namespace {

constexpr std::string_view kGap = "  ";

// `cell` filled up to `width`.
std::string Padded(const std::string& cell, size_t width, Align align) {
  const std::string fill(width - std::min(width, DisplayWidth(cell)), ' ');
  return align == Align::kRight ? fill + cell : cell + fill;
}

void TrimRight(std::string* line) { line->erase(line->find_last_not_of(' ') + 1); }

// Takes `*excess` columns from shrinkable columns, the last column first.
void Shrink(const std::vector<Column>& columns, size_t* excess, std::vector<size_t>* widths) {
  for (size_t c = columns.size(); c-- > 0 && *excess > 0;) {
    const size_t min_width = columns[c].min_width;
    if (min_width == 0 || (*widths)[c] <= min_width) continue;
    const size_t num_taken = std::min(*excess, (*widths)[c] - min_width);
    (*widths)[c] -= num_taken;
    *excess -= num_taken;
  }
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::Widths(size_t max_width) const {
  std::vector<size_t> full;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].header);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    full.push_back(width);
  }
  while (true) {
    std::vector<size_t> widths = full;
    size_t total = 0;
    for (const size_t width : widths)
      total += width == 0 ? 0 : width + (total == 0 ? 0 : kGap.size());
    size_t excess = total - std::min(total, max_width);
    Shrink(columns_, &excess, &widths);
    if (excess == 0) return widths;
    size_t least = columns_.size();  // The column that is left out next.
    for (size_t c = 0; c < columns_.size(); ++c) {
      const uint32_t rank = full[c] == 0 ? 0 : columns_[c].rank;
      if (rank > (least == columns_.size() ? 0 : columns_[least].rank)) least = c;
    }
    if (least == columns_.size()) return widths;
    full[least] = 0;
  }
}

std::string Table::ToText(size_t max_width) const {
  const std::vector<size_t> widths = Widths(max_width);
  std::string text;
  const auto add_line = [&](const auto& cell_at) {
    std::string line;
    bool is_first = true;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (widths[c] == 0) continue;
      if (!std::exchange(is_first, false)) line += kGap;
      line += Padded(CutToWidth(cell_at(c), widths[c]), widths[c], columns_[c].align);
    }
    TrimRight(&line);
    text += line + "\n";
  };
  add_line([&](size_t c) -> const std::string& { return columns_[c].header; });
  for (const auto& row : rows_) {
    add_line([&](size_t c) -> const std::string& { return row[c]; });
  }
  return text;
}

std::string PairsText(const std::vector<std::pair<std::string, std::string>>& pairs,
                      std::string_view indent) {
  size_t width = 0;
  for (const auto& [key, value] : pairs) width = std::max(width, DisplayWidth(key));
  std::string text;
  for (const auto& [key, value] : pairs) {
    std::string line = std::string(indent) + Padded(key, width, Align::kLeft);
    line += std::string(kGap) + value;
    TrimRight(&line);
    text += line + "\n";
  }
  return text;
}

}  // namespace attndb::cli
