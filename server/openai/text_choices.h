// Joins the choices of one answer: to one body, or to one stream of server-sent events.
//
// Whole:   the body is sent when the last choice has ended. Its choices stand in the order of their
//          indexes.
// Streams: the first event waits for the first text of any choice, so that whatever fails before is
//          a plain HTTP error. The roles of all choices come first. The events of choices come as
//          they are made. After the last choice comes, if asked for, the usage, then [DONE].
// Usage:   the prompt counts once, and the completion tokens are those of all choices that ended.
// Errors:  a choice that fails while others go on has the finish_reason "error". Its attndb.error
//          has the code of the error, and no message: an answer that is no error may not name paths
//          of this host, and nobody looks for them in it. If all choices fail, the answer is an
//          error: as HTTP says it, or the last event of a stream that has begun.
// Own:     of several choices each names in attndb.context the context that it is stored as.
// Threads: thread-safe, with one thread at a time for each choice.
#ifndef ATTNDB_SERVER_OPENAI_TEXT_CHOICES_H_
#define ATTNDB_SERVER_OPENAI_TEXT_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/batch/turn.h"
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
  size_t num_choices = 1;
};

// What a choice has to say, in one event or in all.
struct ChoiceText {
  Json said;                      // The text of a completion, or the message or delta of a chat.
  std::string logprobs = "null";  // JSON.
};

class TextChoices {
 public:
  TextChoices(std::shared_ptr<Responder> responder, AnswerStyle style);

  const AnswerStyle& style() const { return style_; }

  // A choice begins. The first one gives the answer its id and its headers.
  void Start(size_t index, const TurnStart& start);
  // Writes an event with more of a choice. REQUIRES: style().stream.
  void Write(size_t index, const ChoiceText& text);
  // A choice ends. `text`: all of it, or what its last event has.
  void End(size_t index, const ChoiceText& text, const char* reason, const TurnEnd& end);
  void Fail(size_t index, const ChoiceText& text, const Status& status);

 private:
  struct Choice {
    TurnStart start;
    std::string text;  // JSON of the choice, once it has ended.
    bool has_failed = false;
  };

  // All of these need mutex_.
  Json Frame(const char* object) const;
  Json FrameOfEvent() const;
  std::string TextOf(size_t index, const ChoiceText& text, const Json& reason,
                     const Json& own) const;
  std::string Role(size_t index) const;
  std::string EventOf(const std::string& choice) const;
  Json Usage() const;
  void WriteEvent(const std::string& choice);
  void EnsureBegun();
  void TakeEnded(size_t index, std::string text);
  void EndAnswer();

  const std::shared_ptr<Responder> responder_;
  const AnswerStyle style_;

  std::mutex mutex_;
  std::optional<TurnStart> start_;  // The first choice's.
  bool begun_ = false;              // The stream's head was sent.
  std::vector<Choice> choices_;
  size_t num_open_;
  uint64_t num_tokens_ = 0;  // Sum of the choices that ended, as the next one.
  uint64_t num_thinking_tokens_ = 0;
  uint64_t num_dropped_tokens_ = 0;
  std::optional<Status> error_;  // The first.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_OPENAI_TEXT_CHOICES_H_
