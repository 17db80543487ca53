// The results of `find`, as JSON and as a table.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_FOUND_TEXT_H_
#define ATTNDB_CLI_COMMON_FOUND_TEXT_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "attndb/find.h"
#include "cli/common/table.h"
#include "cli/environment.h"

namespace attndb::cli {

struct FindTimes {
  double question_ms = 0;  // The model's own forward of the question.
  double find_ms = 0;      // The search for its passages.
};

// `texts`, here and below: the text of each passage.
Json ToJson(const FindResult& found, std::span<const std::string> texts, const FindTimes& times);

// One line for each passage.
std::string FoundTable(const FindResult& found, std::span<const std::string> texts,
                       size_t max_width = kAnyWidth);

// Prints the table, and says on stderr how much was looked through.
void PrintFound(Environment* env, const FindResult& found, std::span<const std::string> texts,
                const FindTimes& times);

// "looked through 203,008 tokens of 100 contexts in 71.0 ms, after 190.2 ms for the question".
std::string ToText(const FindResult& found, const FindTimes& times);

// `text` on one line: runs of white space as one space, cut to `max_width` columns.
std::string OneLine(std::string_view text, size_t max_width);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_FOUND_TEXT_H_
