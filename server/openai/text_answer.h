// Writes a choice of an answer, as it comes: whole, or as a stream of server-sent events. An answer
// has one choice, unless a request asks for more of them ("n").
//
// Streams: text_choices.h says when events are sent. The role comes first, finish_reason last. The
//          logprobs of a token come in the event with the end of its text, or in that with
//          finish_reason. An event has some of reasoning_content, of content, or of tool_calls: of
//          a call the first has its index, id, type and name, the others its index and more of its
//          arguments.
// Threads: as ReplyWriter. The choices of an answer may be written by several threads.
#ifndef ATTNDB_SERVER_OPENAI_TEXT_ANSWER_H_
#define ATTNDB_SERVER_OPENAI_TEXT_ANSWER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/batch/turn.h"
#include "server/chat/reply_writer.h"
#include "server/http/exchange.h"
#include "server/json.h"
#include "server/openai/text_choices.h"
#include "server/openai/token_logprobs.h"

namespace attndb::server {

class TextAnswer final : public ReplyWriter {
 public:
  TextAnswer(std::shared_ptr<TextChoices> answer, size_t index)
      : answer_(std::move(answer)), index_(index), logprobs_(answer_->style().logprobs) {}
  // The one choice of an answer.
  TextAnswer(std::shared_ptr<Responder> responder, AnswerStyle style)
      : TextAnswer(std::make_shared<TextChoices>(std::move(responder), std::move(style)), 0) {}

  void OnStart(const TurnStart& start) override { answer_->Start(index_, start); }
  void OnChances(std::vector<llama::ReplyToken> tokens) override { logprobs_.Add(tokens); }
  void OnDelta(const ReplyDelta& delta) override;
  void OnEnd(const TurnEnd& end, size_t num_calls) override;
  void OnError(const Status& status) override;

 private:
  const AnswerStyle& style() const { return answer_->style(); }
  // What is said, with the logprobs of the tokens since the last time.
  ChoiceText With(Json said);
  // Writes an event of a stream.
  void Write(Json said) { answer_->Write(index_, With(std::move(said))); }
  void WriteCall(const CallDelta& call);
  // Keeps what an answer that is not streamed says.
  void Add(const ReplyDelta& delta);
  // Returns the whole message of a chat's answer.
  Json Message() const;
  // Returns what the choice ends with: all of it, or nothing more in a stream.
  ChoiceText Last();

  const std::shared_ptr<TextChoices> answer_;
  const size_t index_;
  // The reply so far, if the answer is not streamed.
  std::string text_;
  std::string reasoning_;
  std::vector<llama::ReadCall> calls_;
  TokenLogprobs logprobs_;  // For tokens that were not sent yet.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TEXT_ANSWER_H_
