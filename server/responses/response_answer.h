// Answers POST /v1/responses: whole, or as a stream of server-sent events.
//
//   response.created, response.in_progress
//   for each item  response.output_item.added, its deltas, what it is in the end,
//                  response.output_item.done
//   response.completed, or response.incomplete if the reply has too many tokens
//
// Items:   reasoning, a message and calls of tools, one behind the other. An item ends when the
//          next begins.
// Streams: the first event waits for the first of the reply, so that whatever fails before is a
//          plain HTTP error; what fails later is response.failed.
// Threads: as ReplyWriter.
#ifndef ATTNDB_SERVER_RESPONSES_RESPONSE_ANSWER_H_
#define ATTNDB_SERVER_RESPONSES_RESPONSE_ANSWER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/chat/reply_writer.h"
#include "server/http/exchange.h"
#include "server/responses/response_object.h"

namespace attndb::server {

class ResponseAnswer final : public ReplyWriter {
 public:
  // `frame`: its context is the turn's, once that has begun.
  ResponseAnswer(std::shared_ptr<Responder> responder, ResponseFrame frame, bool stream)
      : responder_(std::move(responder)), stream_(stream), frame_(std::move(frame)) {}

  void OnStart(const TurnStart& start) override;
  void OnDelta(const ReplyDelta& delta) override;
  void OnEnd(const TurnEnd& end, size_t num_calls) override;
  void OnError(const Status& status) override;

 private:
  using Kind = OutputItem::Kind;

  Json Output(const char* last_status) const;
  // More of an item, which begins with it if it is not the last one.
  void Add(const OutputItem& item, const std::string& text);
  void Open(const OutputItem& item);
  void Close(const char* status);
  void EnsureBegun();
  void WriteResponse(const std::string& event, const Json& response);
  // Writes an event of the last item. `more`: the event's own members.
  void WriteOfItem(const std::string& event, Json more);
  void Write(const std::string& event, Json json);

  const std::shared_ptr<Responder> responder_;
  const bool stream_;
  ResponseFrame frame_;
  TurnStart start_;
  bool begun_ = false;     // The stream's head was sent.
  bool is_open_ = false;   // The last item has not ended.
  uint64_t num_sent_ = 0;  // Events.
  std::vector<OutputItem> items_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_RESPONSES_RESPONSE_ANSWER_H_
