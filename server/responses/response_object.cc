#include "server/responses/response_object.h"

#include <string_view>
#include <utility>
#include <vector>

namespace attndb::server {
namespace {

constexpr std::string_view kResponsePrefix = "resp_";

using ItemKind = OutputItem::Kind;

}  // namespace

std::string ResponseIdOf(const std::string& context) {
  return std::string(kResponsePrefix) + context;
}

std::optional<std::string> ContextOfResponse(const std::string& id) {
  if (!id.starts_with(kResponsePrefix) || id.size() == kResponsePrefix.size()) return std::nullopt;
  return id.substr(kResponsePrefix.size());
}

Json ResponseJson(const ResponseFrame& frame, const char* status, Json output, Json usage) {
  Json json = {{"id", ResponseIdOf(frame.context)},
               {"object", "response"},
               {"created_at", frame.created},
               {"status", status},
               {"background", false},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", frame.model},
               {"output", std::move(output)}};
  if (std::string_view(status) == kIncomplete) {
    json["incomplete_details"] = Json{{"reason", "max_output_tokens"}};
  }
  json.update(frame.settings);
  json["usage"] = std::move(usage);
  return json;
}

const char* StatusOf(const TurnEnd& end) {
  return end.finish == llama::FinishReason::kMaxTokens ? kIncomplete : kCompleted;
}

Json ResponseUsage(const TurnStart& start, const TurnEnd& end) {
  Json usage = {
      {"input_tokens", start.num_prompt_tokens},
      {"input_tokens_details",
       {{"cached_tokens", start.num_cached_tokens}, {"cache_write_tokens", start.num_run_tokens}}},
      {"output_tokens", end.num_tokens},
      {"output_tokens_details", {{"reasoning_tokens", end.num_thinking_tokens.value_or(0)}}},
      {"total_tokens", start.num_prompt_tokens + end.num_tokens}};
  if (start.num_cut_tokens > 0) usage["input_tokens_details"]["cut_tokens"] = start.num_cut_tokens;
  return usage;
}

std::string ItemIdOf(const OutputItem& item, const std::string& context, size_t index) {
  const char* const prefix = item.kind == ItemKind::kThought   ? "rs_"
                             : item.kind == ItemKind::kMessage ? "msg_"
                                                               : "fc_";
  return prefix + context + "_" + std::to_string(index);
}

Json PartOf(const OutputItem& item) {
  if (item.kind == ItemKind::kThought) return {{"type", "reasoning_text"}, {"text", item.text}};
  return {{"type", "output_text"},
          {"text", item.text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json ItemJson(const OutputItem& item, const std::string& context, size_t index,
              const char* status) {
  Json json = {{"id", ItemIdOf(item, context, index)}};
  const bool has_begun = std::string_view(status) != kInProgress;
  Json content = has_begun ? Json::array({PartOf(item)}) : Json::array();
  switch (item.kind) {
    case ItemKind::kThought:
      json["type"] = "reasoning";
      json["summary"] = Json::array();
      json["content"] = std::move(content);
      break;
    case ItemKind::kMessage:
      json["type"] = "message";
      json["role"] = "assistant";
      json["content"] = std::move(content);
      break;
    case ItemKind::kCall:
      json["type"] = "function_call";
      json["call_id"] = item.call_id;
      json["name"] = item.name;
      json["arguments"] = item.text;
      break;
  }
  json["status"] = status;
  return json;
}

Json OutputOf(const llama::ReadReply& reply, const std::string& context, const char* status) {
  std::vector<OutputItem> items;
  if (!reply.reasoning.empty())
    items.push_back({.kind = ItemKind::kThought, .text = reply.reasoning});
  if (!reply.content.empty()) items.push_back({.kind = ItemKind::kMessage, .text = reply.content});
  for (const llama::ReadCall& call : reply.calls) {
    items.push_back(
        {.kind = ItemKind::kCall, .call_id = call.id, .name = call.name, .text = call.arguments});
  }
  Json output = Json::array();
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_last = i + 1 == items.size();
    output.push_back(ItemJson(items[i], context, i, is_last ? status : kCompleted));
  }
  return output;
}

void NameCalls(const std::string& context, llama::ReadReply* reply) {
  size_t num_new = 0;
  for (llama::ReadCall& call : reply->calls) {
    if (call.id.empty()) call.id = CallIdOf(context, num_new++);
  }
}

std::string CallIdOf(const std::string& context, size_t index) {
  return "call_" + context + "_" + std::to_string(index);
}

}  // namespace attndb::server
