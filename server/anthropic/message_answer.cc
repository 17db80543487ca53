#include "server/anthropic/message_answer.h"

#include <algorithm>

#include "server/anthropic/error_form.h"
#include "server/anthropic/history.h"
#include "server/chat/turn_headers.h"
#include "server/http/event_text.h"
#include "server/openai/error.h"
#include "server/openai/tools_field.h"

namespace attndb::server {
namespace {

// Clients that give thinking back leave out what has no signature. Nobody checks it.
constexpr const char* kSignature = "attndb";

}  // namespace

Json MessageAnswer::Message() const {
  return {{"id", "msg_" + start_.id}, {"type", "message"},        {"role", "assistant"},
          {"model", style_.model},    {"content", Json::array()}, {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

Json MessageAnswer::Usage(uint64_t num_tokens, uint64_t num_dropped_tokens) const {
  const uint64_t num_known = start_.num_cached_tokens + start_.num_run_tokens;
  Json usage = {
      {"input_tokens", start_.num_prompt_tokens - std::min(start_.num_prompt_tokens, num_known)},
      {"cache_creation_input_tokens", start_.num_run_tokens},
      {"cache_read_input_tokens", start_.num_cached_tokens},
      {"output_tokens", num_tokens}};
  if (num_dropped_tokens > 0) usage["dropped_tokens"] = num_dropped_tokens;
  if (start_.num_cut_tokens > 0) usage["cut_tokens"] = start_.num_cut_tokens;
  return usage;
}

Json MessageAnswer::StopOf(const TurnEnd& end, size_t num_calls) const {
  // The model's template has stop strings of its own, which are an end as any other.
  const auto& stops = style_.stop_sequences;
  const bool is_asked = end.finish == llama::FinishReason::kStop &&
                        std::find(stops.begin(), stops.end(), end.stop) != stops.end();
  if (is_asked) return {{"stop_reason", "stop_sequence"}, {"stop_sequence", end.stop}};
  const bool is_cut = end.finish == llama::FinishReason::kMaxTokens;
  const char* const reason = is_cut ? "max_tokens" : num_calls > 0 ? "tool_use" : "end_turn";
  return {{"stop_reason", reason}, {"stop_sequence", nullptr}};
}

Json MessageAnswer::Empty(const Block& block) {
  switch (block.kind) {
    case BlockKind::kThinking:
      return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    case BlockKind::kText:
      return {{"type", "text"}, {"text", ""}};
    case BlockKind::kCall:
      break;
  }
  return {{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", Json::object()}};
}

Json MessageAnswer::Whole(const Block& block) {
  Json json = Empty(block);
  if (block.kind == BlockKind::kText) json["text"] = block.text;
  if (block.kind == BlockKind::kThinking) {
    json["thinking"] = block.text;
    json["signature"] = kSignature;
  }
  if (block.kind != BlockKind::kCall) return json;
  // The input of a call that was cut is no JSON, and stays empty.
  if (!IsJson(block.text)) return json;
  Json input = ReadOwnJson(block.text);
  if (input.is_object()) json["input"] = std::move(input);
  return json;
}

Json MessageAnswer::DeltaOf(const Block& block, const std::string& text) {
  switch (block.kind) {
    case BlockKind::kThinking:
      return {{"type", "thinking_delta"}, {"thinking", text}};
    case BlockKind::kText:
      return {{"type", "text_delta"}, {"text", text}};
    case BlockKind::kCall:
      break;
  }
  return {{"type", "input_json_delta"}, {"partial_json", text}};
}

void MessageAnswer::Write(const char* event, Json json) {
  Json typed = {{"type", event}};
  typed.update(json);
  responder_->Write(EventText(event, ToText(typed)));
}

void MessageAnswer::EnsureBegun() {
  if (std::exchange(begun_, true)) return;
  Response response = StreamHead(TurnHeaders(start_, start_.num_dropped_tokens));
  responder_->Begin(std::move(response));
  Json message = Message();
  message["usage"] = Usage(0, start_.num_dropped_tokens);
  Write("message_start", {{"message", std::move(message)}});
}

void MessageAnswer::Open(const Block& block) {
  if (is_open_ && blocks_.back().kind == block.kind && blocks_.back().call == block.call) return;
  Close();
  is_open_ = true;
  blocks_.push_back(block);
  if (!style_.stream) return;
  Write("content_block_start", {{"index", blocks_.size() - 1}, {"content_block", Empty(block)}});
}

void MessageAnswer::Close() {
  if (!std::exchange(is_open_, false) || !style_.stream) return;
  const size_t index = blocks_.size() - 1;
  if (blocks_.back().kind == BlockKind::kThinking) {
    const Json signature = {{"type", "signature_delta"}, {"signature", kSignature}};
    Write("content_block_delta", {{"index", index}, {"delta", signature}});
  }
  Write("content_block_stop", {{"index", index}});
}

// More of a block, which begins with it if it is not the last one.
void MessageAnswer::Add(const Block& block, const std::string& text) {
  Open(block);
  if (text.empty()) return;
  if (style_.stream) {
    Write("content_block_delta", {{"index", blocks_.size() - 1}, {"delta", DeltaOf(block, text)}});
  } else {
    blocks_.back().text += text;
  }
}

void MessageAnswer::OnDelta(const ReplyDelta& delta) {
  if (delta.empty()) return;
  if (style_.stream) EnsureBegun();
  if (!delta.reasoning.empty()) Add({.kind = BlockKind::kThinking}, delta.reasoning);
  if (!delta.content.empty()) Add({.kind = BlockKind::kText}, delta.content);
  for (const CallDelta& call : delta.calls) {
    Add({.kind = BlockKind::kCall,
         .call = call.index,
         .id = std::string(kCallIdPrefix) + call.id,
         .name = call.name},
        call.arguments);
  }
}

Status MessageAnswer::CheckEnd() const {
  if (style_.stream) return Status::Ok();
  for (const Block& block : blocks_) {
    if (block.kind != BlockKind::kCall || !IsJson(block.text)) continue;
    const Status status = CheckJson("input", block.text, kMaxSchemaMembers);
    if (!status.ok()) {
      return Status::Internal("the reply's call of " + block.name + ": " + status.message());
    }
  }
  return Status::Ok();
}

void MessageAnswer::OnEnd(const TurnEnd& end, size_t num_calls) {
  const Json stop = StopOf(end, num_calls);
  const Json usage = Usage(end.num_tokens, end.num_dropped_tokens);
  if (style_.stream) {
    EnsureBegun();
    Close();
    Write("message_delta", {{"delta", stop}, {"usage", usage}});
    Write("message_stop", Json::object());
    return responder_->End();
  }
  Json whole = Message();
  for (const Block& block : blocks_) {
    whole["content"].push_back(Whole(block));
  }
  whole.update(stop);
  whole["usage"] = usage;
  responder_->Send({.headers = TurnHeaders(start_, end.num_dropped_tokens), .body = ToText(whole)});
}

void MessageAnswer::OnError(const Status& status) {
  if (!begun_) return responder_->Send(ErrorResponse(status));
  responder_->Write(AnthropicErrorEvent(status, style_.request_id));
  responder_->End();
}

}  // namespace attndb::server
