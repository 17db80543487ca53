// Matches the tokens of a reply to its text as it is shown. A TextStream holds bytes back, inside a
// character and where a stop string may begin: a token is given out once its last byte is shown.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_SHOWN_TOKENS_H_
#define ATTNDB_ENGINES_LLAMA_SHOWN_TOKENS_H_

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "engines/llama/llama_engine.h"

namespace attndb::llama {

class ShownTokens {
 public:
  // A new token at the end of the reply, with all of its bytes.
  void Add(ReplyToken token) { tokens_.push_back(std::move(token)); }

  // So many more bytes of the tokens are shown. Returns the tokens that end with them, in order. A
  // token without bytes ends where it stands.
  std::vector<ReplyToken> Show(size_t num_bytes);

  // No more bytes are shown as they are. Returns the tokens that are left. If the text ended before
  // a stop string, these are the tokens before it; the last of them may be cut.
  std::vector<ReplyToken> Finish(bool stopped);

 private:
  std::deque<ReplyToken> tokens_;  // Not given out yet.
  size_t num_shown_ = 0;           // Bytes of tokens_ that are shown.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SHOWN_TOKENS_H_
