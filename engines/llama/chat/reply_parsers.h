// Reads replies: what of a text is content, reasoning, and calls of tools. llama.cpp's `common`
// does it, by a parser that it made with the prompt (ReplyForm::parser). The parser is 60 KB of
// text for 24 tools, and reading that takes longer than reading the reply. So the last parsers are
// kept by a name that whoever asks gives them.
//
// Errors:  kInvalidArgument: a text that is no parser; a reply that has not the form.
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_REPLY_PARSERS_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_REPLY_PARSERS_H_

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

inline constexpr size_t kKeptParsers = 16;

class ReplyParsers {
 public:
  ReplyParsers();
  ~ReplyParsers();

  bool Knows(std::string_view id) const;
  // Keeps a parser, and forgets the one that was not used for the longest time.
  Status Add(const std::string& id, const std::string& parser);
  // REQUIRES: Knows(id). Of `form`, all but the parser is used.
  Result<ReadReply> Read(std::string_view id, const ReplyForm& form, const std::string& text,
                         bool is_partial);

 private:
  struct Kept;

  std::list<std::unique_ptr<Kept>> kept_;  // The last used first.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_REPLY_PARSERS_H_
