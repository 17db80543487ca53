// Titles of contexts: one rule for the store, its clients and servers.
//
// Threads: pure functions.
#ifndef ATTNDB_CONTEXT_TITLE_H_
#define ATTNDB_CONTEXT_TITLE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "attndb/export.h"
#include "attndb/status.h"

namespace attndb {

inline constexpr size_t kMaxContextTitleBytes = 256;

// A title is one line of at most kMaxContextTitleBytes bytes of UTF-8 without control characters.
// Line separators and marks that turn the direction of a line count as control characters. An empty
// title is none.
// Errors: kInvalidArgument naming what was found, and where.
ATTNDB_EXPORT Status CheckContextTitle(std::string_view title);

// Makes a title of the first words of a text. A run of spaces, line ends and control characters
// becomes one space, and a byte that is no UTF-8 becomes "?". A text that is too long is cut behind
// a word, or within a word that fills the title alone, and ends in "...". A character is never cut.
// Returns "" where the text has no visible character.
ATTNDB_EXPORT std::string TitleOfText(std::string_view text, size_t max_bytes = 80);

}  // namespace attndb

#endif  // ATTNDB_CONTEXT_TITLE_H_
