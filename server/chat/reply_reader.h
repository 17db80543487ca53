// Reads the text of a reply while the model writes it, and tells a writer what is new in it.
//
// Method:  the reply is read from its first character each time. Texts that come while it is read
//          are read together, next. The last reading decides: an error comes if the client has got
//          something else. A reply that has not the form of its model (a call of a tool that is
//          no JSON) is content as it is: the client sees what the model wrote, as it would have
//          without tools.
// Limits:  a reply with more than kMaxOpenBrackets brackets open is an error (open_brackets.h).
// Threads: as TurnListener; none of its calls waits. Without a reader all text is content, and the
//          writer is called at once. With one the writer is called on the threads of `run_later`,
//          in order, by one at a time.
#ifndef ATTNDB_SERVER_CHAT_REPLY_READER_H_
#define ATTNDB_SERVER_CHAT_REPLY_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/chat_prompt.h"
#include "server/batch/turn.h"
#include "server/chat/reply_writer.h"

namespace attndb::server {

// 32 random letters and digits.
std::string NewCallId();

// Whether a reply that ends so has the form of a beginning: the model did not end it.
inline bool IsCut(const TurnEnd& end) { return end.finish != llama::FinishReason::kEnd; }

struct ReplyReading {
  // Reads a reply, or the beginning of one (LlamaEngine::ReadReplyText). It may take a second.
  // Null: all text is content.
  // Errors: kInvalidArgument: the text has not the form.
  std::function<Result<llama::ReadReply>(std::string_view text, bool is_partial)> read = nullptr;
  // Runs work on another thread. Not null if `read` is not.
  std::function<void(std::function<void()> work)> run_later = nullptr;
  // Counts the tokens of the reasoning where nobody knows the marks of the model's thinking. Null:
  // they are not counted.
  std::function<uint64_t(const std::string& text)> count = nullptr;
  bool streams = true;     // False: only the whole reply is read.
  bool continues = false;  // The client has what `read` makes of the empty text.
  // Makes an id for a call to which the model gives none.
  std::function<std::string()> new_call_id = NewCallId;
  // Called when the reply has failed before its end: nobody waits for the rest. May be null.
  std::function<void()> cancel = nullptr;
};

class ReplyReader final : public TurnListener {
 public:
  ReplyReader(ReplyReading reading, std::shared_ptr<ReplyWriter> writer);
  // Without an end before it, the client has gone: nothing more is read.
  ~ReplyReader() override;

  void OnStart(const TurnStart& start) override { writer_->OnStart(start); }
  void OnChances(std::vector<llama::ReplyToken> tokens) override;
  void OnText(std::string_view text) override;
  void OnEnd(const TurnEnd& end) override;
  void OnError(const Status& status) override;

 private:
  class Strand;

  const std::shared_ptr<ReplyWriter> writer_;
  const std::shared_ptr<Strand> strand_;  // Null: all text is content.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_REPLY_READER_H_
