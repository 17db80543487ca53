#include "cli/common/table.h"

#include <algorithm>

namespace attndb::cli {
namespace {

constexpr std::string_view kGap = "  ";

// `cell` filled up to `width`.
std::string Padded(const std::string& cell, size_t width, Align align) {
  const std::string fill(width - std::min(width, DisplayWidth(cell)), ' ');
  return align == Align::kRight ? fill + cell : cell + fill;
}

void TrimRight(std::string* line) { line->erase(line->find_last_not_of(' ') + 1); }

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::ToText() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].header);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](const auto& cell_at) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += kGap;
      line += Padded(cell_at(c), widths[c], columns_[c].align);
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
