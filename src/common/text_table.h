// Tables of text, as reports print them: columns two spaces apart, no space at a line's end.
//
// Units:   widths are bytes: cells are ASCII.
// Threads: pure functions.
#ifndef ATTNDB_COMMON_TEXT_TABLE_H_
#define ATTNDB_COMMON_TEXT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attndb::internal {

using Row = std::vector<std::string>;

// "12.30" for 2 decimals.
std::string Number(double value, int decimals);

// Columns as wide as they need; all but the first `num_left` aligned to the right.
// REQUIRES: at least one row; all have as many cells.
std::string Table(const std::vector<Row>& rows, size_t num_left);

}  // namespace attndb::internal

#endif  // ATTNDB_COMMON_TEXT_TABLE_H_
