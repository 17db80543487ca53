// Answers POST /v1/messages: whole, or as a stream of server-sent events.
//
//   message_start, then for each block content_block_start, content_block_delta and
//   content_block_stop, then message_delta with the reason to stop, and message_stop
//
// Blocks:  thinking, text and tool_use, one behind the other. A block ends when the next begins.
// Streams: the first event waits for the first of the reply, so that whatever fails before is a
//          plain HTTP error; what fails later is an event "error".
// Usage:   cache_read_input_tokens are those that were reused, cache_creation_input_tokens those
//          that were run and are stored, and input_tokens the rest: those that left the window
//          before they were read.
// Threads: as ReplyWriter.
#ifndef ATTNDB_SERVER_ANTHROPIC_MESSAGE_ANSWER_H_
#define ATTNDB_SERVER_ANTHROPIC_MESSAGE_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/chat/reply_writer.h"
#include "server/http/exchange.h"
#include "server/json.h"

namespace attndb::server {

struct MessageStyle {
  bool stream = false;
  std::string model;
  std::string request_id;
  std::vector<std::string> stop_sequences;  // Those of the request.
};

class MessageAnswer final : public ReplyWriter {
 public:
  MessageAnswer(std::shared_ptr<Responder> responder, MessageStyle style)
      : responder_(std::move(responder)), style_(std::move(style)) {}

  void OnStart(const TurnStart& start) override { start_ = start; }
  void OnDelta(const ReplyDelta& delta) override;
  // Errors: kInternal: the input of a call has more members than the next request may have.
  Status CheckEnd() const override;
  void OnEnd(const TurnEnd& end, size_t num_calls) override;
  void OnError(const Status& status) override;

 private:
  enum class BlockKind : uint8_t { kThinking, kText, kCall };
  struct Block {
    BlockKind kind = BlockKind::kText;
    size_t call = 0;  // Which call of the reply it is.
    std::string id;
    std::string name;
    std::string text;  // What came of it, or the JSON of a call's input. Empty in a stream.
  };

  Json Message() const;
  Json Usage(uint64_t num_tokens, uint64_t num_dropped_tokens) const;
  Json StopOf(const TurnEnd& end, size_t num_calls) const;
  // The block as it is when it begins, and as a whole answer has it.
  static Json Empty(const Block& block);
  static Json Whole(const Block& block);
  static Json DeltaOf(const Block& block, const std::string& text);

  void Add(const Block& block, const std::string& text);
  void Open(const Block& block);
  void Close();
  void EnsureBegun();
  void Write(const char* event, Json json);

  const std::shared_ptr<Responder> responder_;
  const MessageStyle style_;
  TurnStart start_;
  bool begun_ = false;         // The stream's head was sent.
  bool is_open_ = false;       // The last block has not ended.
  std::vector<Block> blocks_;  // Those that have begun.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_ANTHROPIC_MESSAGE_ANSWER_H_
