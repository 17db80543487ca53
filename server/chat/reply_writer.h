// A reply as clients get it: what the model thinks, what it says, and which tools it calls.
//
// ReplyReader (reply_reader.h) reads the model's text, and a writer for each interface (OpenAI's,
// Anthropic's) writes what it has read.
#ifndef ATTNDB_SERVER_CHAT_REPLY_WRITER_H_
#define ATTNDB_SERVER_CHAT_REPLY_WRITER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "attndb/status.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/turn.h"

namespace attndb::server {

// More of a call of a tool. `id` and `name` come whole, with the first delta of the call.
struct CallDelta {
  size_t index = 0;  // Among the calls of the reply.
  std::string id;
  std::string name;
  std::string arguments;  // The next characters of the JSON.
};

// More of a reply.
struct ReplyDelta {
  std::string reasoning;
  std::string content;
  std::vector<CallDelta> calls;

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

// Writes an answer. Calls come one after the other, from one thread at a time, and none may wait.
// OnStart, then OnChances and OnDelta any number of times, then CheckEnd and OnEnd. OnError may
// come at any point, and is the last.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual void OnStart(const TurnStart& start) = 0;
  virtual void OnChances(std::vector<llama::ReplyToken> /*tokens*/) {}
  virtual void OnDelta(const ReplyDelta& delta) = 0;
  // Returns whether the interface can write the whole reply. If it can't, the caller reports the
  // error by OnError instead of calling OnEnd.
  virtual Status CheckEnd() const { return Status::Ok(); }
  // `num_calls`: of tools.
  virtual void OnEnd(const TurnEnd& end, size_t num_calls) = 0;
  virtual void OnError(const Status& status) = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_REPLY_WRITER_H_
