// Text tables for a terminal: columns as wide as their widest cell, two spaces apart.
//
// Threads: one thread at a time.
// Units:   widths are code points of UTF-8: wide glyphs are not known.
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
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Missing cells are empty. REQUIRES: not more cells than columns.
  void AddRow(std::vector<std::string> cells);

  // Header and rows, one line each, no space at a line's end.
  std::string ToText() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "name    book\ntokens  2,048\n": a table of two columns without header, each line after `indent`.
std::string PairsText(const std::vector<std::pair<std::string, std::string>>& pairs,
                      std::string_view indent = "");

// Code points in `text`.
size_t DisplayWidth(std::string_view text);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TABLE_H_
