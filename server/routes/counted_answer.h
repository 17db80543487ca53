// What listens to the choices of a call for text: their tokens are counted, their replies are read
// and written, and the end of the last of them is the end of the call.
//
//   scheduler -> CountedAnswer -> ReplyReader -> NotedAnswer -> the interface's ReplyWriter
//                                                     |
//                                             NotedEnd, one a call
//
// Threads: NotedEnd is thread-safe; the others as TurnListener and ReplyWriter.
#ifndef ATTNDB_SERVER_ROUTES_COUNTED_ANSWER_H_
#define ATTNDB_SERVER_ROUTES_COUNTED_ANSWER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/batch/turn.h"
#include "server/chat/reply_reader.h"
#include "server/chat/reply_writer.h"
#include "server/openai/text_request.h"
#include "server/service.h"

namespace attndb::server {

// Notes the end of a call in metrics and log when the last of its choices has ended. Frees the
// call's place before its client knows. Thread-safe.
class NotedEnd {
 public:
  NotedEnd(Service* service, Call call, const TextRequest& asked, size_t num_choices)
      : service_(service),
        num_ignored_lines_(asked.num_ignored_lines),
        found_(asked.sources.found),
        call_(std::move(call)),
        num_open_(num_choices) {}

  // A choice starts. Returns how, with the contexts that were found for the call.
  TurnStart Start(TurnStart start);
  // A choice has ended, as if it were the only one.
  void End(const CallEnd& choice);

 private:
  Service* const service_;
  const uint64_t num_ignored_lines_;
  const std::vector<std::string> found_;  // TurnStart::found.
  std::mutex mutex_;
  Call call_;
  size_t num_open_;
  bool has_end_ = false;
  TurnStart start_;  // The first choice's.
  CallEnd end_;      // Sums of the choices that have ended.
};

// Notes the end of a choice before its writer knows.
class NotedAnswer final : public ReplyWriter {
 public:
  NotedAnswer(std::shared_ptr<NotedEnd> end, std::shared_ptr<ReplyWriter> writer)
      : end_(std::move(end)), writer_(std::move(writer)) {}

  void CountToken() { num_reply_tokens_.fetch_add(1, std::memory_order_relaxed); }

  void OnStart(const TurnStart& start) override { writer_->OnStart(end_->Start(start)); }
  void OnChances(std::vector<llama::ReplyToken> tokens) override {
    writer_->OnChances(std::move(tokens));
  }
  void OnDelta(const ReplyDelta& delta) override { writer_->OnDelta(delta); }
  void OnEnd(const TurnEnd& end, size_t num_calls) override;
  void OnError(const Status& status) override;

 private:
  const std::shared_ptr<NotedEnd> end_;
  const std::shared_ptr<ReplyWriter> writer_;
  std::atomic<uint64_t> num_reply_tokens_ = 0;  // The scheduler counts, and a worker may end.
};

// The note of a turn is made of this. The scheduler's thread fills it.
struct KeptReply {
  TurnStart start;
  std::string text;  // All that the model wrote.
};

// Counts the tokens of a choice, as they come, and passes them on to be read.
class CountedAnswer final : public TurnListener {
 public:
  // `kept`: may be null. `counts_prompt`: of one choice of the call.
  CountedAnswer(Metrics* metrics, std::shared_ptr<NotedAnswer> answer, ReplyReading reading,
                std::shared_ptr<KeptReply> kept, bool counts_prompt)
      : metrics_(metrics),
        counts_prompt_(counts_prompt),
        answer_(std::move(answer)),
        kept_(std::move(kept)),
        reader_(std::move(reading), answer_) {}

  void OnStart(const TurnStart& start) override;
  void OnChances(std::vector<llama::ReplyToken> tokens) override {
    reader_.OnChances(std::move(tokens));
  }
  void OnText(std::string_view text) override;
  void OnToken(double seconds) override;
  void OnEnd(const TurnEnd& end) override { reader_.OnEnd(end); }
  void OnError(const Status& status) override { reader_.OnError(status); }

 private:
  Metrics* const metrics_;
  const bool counts_prompt_;
  const std::shared_ptr<NotedAnswer> answer_;
  const std::shared_ptr<KeptReply> kept_;
  ReplyReader reader_;
  bool has_token_ = false;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ROUTES_COUNTED_ANSWER_H_
