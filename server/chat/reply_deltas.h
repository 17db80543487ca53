// Tells what a reading of a reply adds to the readings before it.
//
// A delta only adds. A call of a tool is given out once its name is whole: its arguments have
// begun, another call has, or the reply is whole.
// Threads: one thread at a time.
#ifndef ATTNDB_SERVER_CHAT_REPLY_DELTAS_H_
#define ATTNDB_SERVER_CHAT_REPLY_DELTAS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "engines/llama/chat_prompt.h"
#include "server/chat/reply_writer.h"

namespace attndb::server {

class ReplyDeltas {
 public:
  // `new_id` makes an id for a call that the model gave none.
  explicit ReplyDeltas(std::function<std::string()> new_id) : new_id_(std::move(new_id)) {}

  // Notes that the client has `reading` from elsewhere.
  void Skip(const llama::ReadReply& reading) { given_ = reading; }
  // Returns what `reading` has more than was given out. nullopt: it does not begin with that, and
  // nothing is given out.
  std::optional<ReplyDelta> Next(const llama::ReadReply& reading, bool is_whole);

  const llama::ReadReply& given() const { return given_; }

 private:
  bool Continues(const llama::ReadReply& reading) const;

  const std::function<std::string()> new_id_;
  llama::ReadReply given_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_REPLY_DELTAS_H_
