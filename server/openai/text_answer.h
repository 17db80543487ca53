// Answers a request for text, as it comes: whole, or as a stream of server-sent events.
//
// Streams: the first event waits for the first text, so that whatever fails before is a plain HTTP
//          error; what fails later is an event with an error. The role comes first, finish_reason
//          last, then, if asked for, usage, then [DONE]. The logprobs of a token come in the event
//          with the end of its text, or in that with finish_reason. An event has some of
//          reasoning_content, of content, or of tool_calls: of a call the first has its index, id,
//          type and name, the others its index and more of its arguments.
// Threads: as ReplyWriter.
#ifndef ATTNDB_SERVER_OPENAI_TEXT_ANSWER_H_
#define ATTNDB_SERVER_OPENAI_TEXT_ANSWER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/batch/turn.h"
#include "server/chat/reply_writer.h"
#include "server/http/exchange.h"
#include "server/json.h"
#include "server/openai/token_logprobs.h"

namespace attndb::server {

struct AnswerStyle {
  bool is_chat = true;
  bool stream = false;
  bool include_usage = false;
  LogprobForm logprobs = LogprobForm::kNone;
  std::string model;
  int64_t created = 0;  // Seconds since the Unix epoch.
};

class TextAnswer final : public ReplyWriter {
 public:
  TextAnswer(std::shared_ptr<Responder> responder, AnswerStyle style)
      : responder_(std::move(responder)), style_(std::move(style)), logprobs_(style_.logprobs) {}

  void OnStart(const TurnStart& start) override { start_ = start; }
  void OnChances(std::vector<llama::ReplyToken> tokens) override { logprobs_.Add(tokens); }
  void OnDelta(const ReplyDelta& delta) override;
  void OnEnd(const TurnEnd& end, size_t num_calls) override;
  void OnError(const Status& status) override;

 private:
  Json Frame(const char* object) const;
  // One choice: `said` is the text of a completion, or the message or delta of a chat.
  Json Choice(Json said, const Json& finish_reason) const;
  // Returns the whole message of a chat's answer.
  Json Message() const;
  // Writes an event of a stream.
  void WriteChoice(Json said, const Json& finish_reason);
  void WriteCall(const CallDelta& call);
  // Keeps what an answer that is not streamed says.
  void Add(const ReplyDelta& delta);
  Json Usage(const TurnEnd& end) const;
  // The text of a frame with its choice, and the logprobs of the tokens since the last one.
  std::string TextOf(const Json& frame);
  void EnsureBegun();

  const std::shared_ptr<Responder> responder_;
  const AnswerStyle style_;
  TurnStart start_;
  bool begun_ = false;  // The stream's head was sent.
  // The reply so far, if the answer is not streamed.
  std::string text_;
  std::string reasoning_;
  std::vector<llama::ReadCall> calls_;
  TokenLogprobs logprobs_;  // For tokens that were not sent yet.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TEXT_ANSWER_H_
