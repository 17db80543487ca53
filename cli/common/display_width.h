// The columns that a text takes on a terminal.
//
// Units:   columns. CJK characters and most emoji take two; marks that combine take none.
// Errors:  none; a byte that is not UTF-8 takes one column.
// Threads: stateless.
// Source:  Unicode 14: East_Asian_Width (wide, fullwidth), and blocks of combining marks. A
//          terminal with another font may show single characters in another width.
#ifndef ATTNDB_CLI_COMMON_DISPLAY_WIDTH_H_
#define ATTNDB_CLI_COMMON_DISPLAY_WIDTH_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace attndb::cli {

size_t DisplayWidth(std::string_view text);

// The text; if it takes more columns, its beginning and "…", which fit.
// REQUIRES: max_width > 0.
std::string CutToWidth(std::string_view text, size_t max_width);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_DISPLAY_WIDTH_H_
