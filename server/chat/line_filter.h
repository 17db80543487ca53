// Deletes lines of system messages: those with a match of one of the server's expressions. A line
// that changes with each request, a date or a request's id, would let nothing behind it be reused.
//
// Lines:   end with \n or \r\n, which is deleted with its line; the last one may have no end. An
//          expression sees a line without its end.
// Cost:    linear in the text (RE2).
// Errors:  kInvalidArgument: an expression that RE2 refuses, in RE2's words; an empty one.
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_CHAT_LINE_FILTER_H_
#define ATTNDB_SERVER_CHAT_LINE_FILTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::server {

class LineFilter {
 public:
  // `expressions`: in RE2's syntax; none: no line is deleted.
  static Result<LineFilter> Make(std::span<const std::string> expressions);

  LineFilter() = default;

  // Deletes lines of the messages with the role system or developer, and returns how many. A
  // message stays if no line is left of it; a part of a message goes.
  uint64_t Apply(std::span<llama::ChatMessage> messages) const;
  // The same of one text.
  uint64_t Apply(std::string* text) const;

 private:
  struct Expressions;
  std::shared_ptr<const Expressions> expressions_;  // Null: there are none.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_LINE_FILTER_H_
