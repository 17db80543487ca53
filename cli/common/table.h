// Text tables for a terminal: columns as wide as their widest cell, two spaces apart.
//
// Threads: one thread at a time.
// Units:   widths are columns of a terminal (display_width.h).
#ifndef ATTNDB_CLI_COMMON_TABLE_H_
#define ATTNDB_CLI_COMMON_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attndb::cli {

enum class Align : uint8_t { kLeft, kRight };

struct Column {
  std::string header;
  Align align = Align::kLeft;
  // A table that is too wide first shrinks columns to `min_width`, the last one before the others.
  // Then it leaves out columns, the largest rank first. 0: the column does not shrink, or stays.
  size_t min_width = 0;
  uint32_t rank = 0;
};

inline constexpr size_t kAnyWidth = SIZE_MAX;  // No limit of a table's width.

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Missing cells are empty. REQUIRES: not more cells than columns.
  void AddRow(std::vector<std::string> cells);

  // Header and rows, one line each, no space at a line's end. A table of more than `max_width`
  // gives way as far as its columns allow; a cell that is cut ends with "…".
  std::string ToText(size_t max_width = kAnyWidth) const;

 private:
  // Returns the width of each column. A column of width 0 is left out.
  std::vector<size_t> Widths(size_t max_width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "name    book\ntokens  2,048\n": a table of two columns without header, each line after `indent`.
std::string PairsText(const std::vector<std::pair<std::string, std::string>>& pairs,
                      std::string_view indent = "");

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TABLE_H_
