// Answers POST /completion and POST /infill as llama.cpp's server does: one object, or a stream of
// server-sent events, the last of which has "stop": true. No [DONE] follows. Each event has the ids
// of its tokens, a whole answer all of them, if TurnRequest::tells_tokens says so.
//
// Threads: as ReplyWriter.
#ifndef ATTNDB_SERVER_LLAMA_COMPLETION_ANSWER_H_
#define ATTNDB_SERVER_LLAMA_COMPLETION_ANSWER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "attndb/types.h"
#include "server/chat/reply_writer.h"
#include "server/http/exchange.h"
#include "server/json.h"
#include "server/openai/text_request.h"
#include "server/openai/token_logprobs.h"

namespace attndb::server {

// Returns the settings of a request that are honoured, by the names of llama.cpp's server.
Json GenerationSettings(const TextRequest& asked);

struct LlamaAnswerStyle {
  bool stream = false;
  LogprobForm logprobs = LogprobForm::kNone;
  std::string model;
  std::string prompt;           // As text.
  Json settings;                // GenerationSettings.
  double received_seconds = 0;  // By MonotonicSeconds.
  size_t index = 0;             // Among the choices of the request.
  bool names_context = false;   // The last object names the turn's context: attndb.context.
};

class LlamaAnswer final : public ReplyWriter {
 public:
  LlamaAnswer(std::shared_ptr<Responder> responder, LlamaAnswerStyle style)
      : responder_(std::move(responder)), style_(std::move(style)), probs_(style_.logprobs) {}

  void OnStart(const TurnStart& start) override { start_ = start; }
  void OnChances(std::vector<llama::ReplyToken> tokens) override;
  void OnDelta(const ReplyDelta& delta) override;
  void OnEnd(const TurnEnd& end, size_t num_calls) override;
  void OnError(const Status& status) override;

 private:
  // The last object: `content` is what no event has told yet.
  Json Whole(const TurnEnd& end, const std::string& content);
  Json Timings(const TurnEnd& end) const;
  // Adds the probabilities of tokens that were not told yet.
  void AddProbabilities(Json* object);
  // An event with text, and with the tokens that came with it.
  void WriteText(const std::string& content);
  void Write(const Json& event);

  const std::shared_ptr<Responder> responder_;
  const LlamaAnswerStyle style_;
  TurnStart start_;
  bool begun_ = false;  // The stream's head was sent.
  bool has_new_line_ = false;
  uint64_t num_events_ = 0;
  // Ids of tokens that no event has told yet.
  std::vector<TokenId> tokens_;
  size_t num_seen_ = 0;  // Tokens that OnChances has told.
  std::string text_;     // What came of an answer that is not streamed.
  TokenLogprobs probs_;  // For tokens that were not told yet.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_LLAMA_COMPLETION_ANSWER_H_
