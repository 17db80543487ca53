// Text of unknown origin in a message: short, on one line, without control characters.
//
// Threads: pure functions.
#ifndef ATTNDB_COMMON_QUOTE_H_
#define ATTNDB_COMMON_QUOTE_H_

#include <string>
#include <string_view>

namespace attndb {

// "'text'": its first 80 bytes of UTF-8, with '?' for each character that is not seen or that a
// terminal acts upon, and for each byte that is no UTF-8.
std::string Quoted(std::string_view text);

}  // namespace attndb

#endif  // ATTNDB_COMMON_QUOTE_H_
