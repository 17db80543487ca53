#include "server/anthropic/message_request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "server/anthropic/cache_marks.h"
#include "server/anthropic/history.h"
#include "server/anthropic/tool_fields.h"
#include "server/fields.h"

namespace attndb::server {
namespace {

Status ReadStops(const Json& body, std::vector<std::string>* stops) {
  const Json* const found = FindMember(body, "stop_sequences");
  if (found == nullptr) return Status::Ok();
  const std::string expected = "at most " + std::to_string(kMaxStops) + " texts of 1 to " +
                               std::to_string(kMaxStopBytes) + " bytes";
  if (!found->is_array() || found->size() > kMaxStops) {
    return WrongValue("stop_sequences", expected, *found);
  }
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& stop = (*found)[i];
    const bool fits = stop.is_string() && !stop.get_ref<const std::string&>().empty() &&
                      stop.get_ref<const std::string&>().size() <= kMaxStopBytes;
    if (!fits) return WrongValue(PlaceOf("stop_sequences", i), expected, stop);
    stops->push_back(stop.get<std::string>());
  }
  return Status::Ok();
}

Status ReadSampler(const Json& body, llama::SamplerOptions* sampler) {
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "temperature", 0, 5, &sampler->temperature));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "top_p", 0, 1, &sampler->top_p));
  ATTNDB_ASSIGN_OR_RETURN(const auto top_k, CountOf(body, "", "top_k", 0, 1 << 20));
  if (top_k) sampler->top_k = static_cast<int32_t>(*top_k);
  return Status::Ok();
}

Status ReadThinking(const Json& body, TextRequest* request) {
  const Json* const thinking = FindMember(body, "thinking");
  if (thinking == nullptr) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(*thinking, "thinking"));
  if (type == "adaptive" || type == "between_tools") return Status::Ok();  // As the template does.
  if (type != "enabled" && type != "disabled") {
    return WrongValue("thinking.type", "enabled, disabled, adaptive or between_tools", type);
  }
  request->chat.enable_thinking = type == "enabled";
  if (type == "disabled") return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const auto budget,
                          CountOf(*thinking, "thinking", "budget_tokens", 1, INT32_MAX));
  if (!budget) return WrongValue("thinking.budget_tokens", "an integer", Json());
  request->reasoning_budget = static_cast<int64_t>(*budget);
  if (!request->max_tokens || *budget < *request->max_tokens) return Status::Ok();
  return WrongValue("thinking.budget_tokens", "fewer than max_tokens", *budget);
}

Status ReadEffort(const Json& effort, llama::ChatOptions* chat) {
  bool is_known = false;
  for (const char* const known : {"low", "medium", "high", "xhigh", "max"}) {
    is_known = is_known || effort == known;
  }
  if (!is_known)
    return WrongValue("output_config.effort", "low, medium, high, xhigh or max", effort);
  // The templates that know efforts know none beyond high.
  const bool is_beyond = effort == "xhigh" || effort == "max";
  chat->variables["reasoning_effort"] = is_beyond ? R"("high")" : ToText(effort);
  return Status::Ok();
}

Status ReadOutput(const Json& body, llama::ChatOptions* chat) {
  const std::string place = "output_config";
  const Json* const config = FindMember(body, place.c_str());
  if (config == nullptr) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(CheckObject(*config, place));
  if (const Json* const effort = FindMember(*config, "effort")) {
    ATTNDB_RETURN_IF_ERROR(ReadEffort(*effort, chat));
  }
  const Json* const format = FindMember(*config, "format");
  if (format == nullptr) return Status::Ok();
  const std::string at = PlaceOf(place, "format");
  ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(*format, at));
  if (type != "json_schema") return WrongValue(PlaceOf(at, "type"), "json_schema", type);
  const Json* const schema = FindMember(*format, "schema");
  ATTNDB_RETURN_IF_ERROR(CheckObject(schema == nullptr ? Json() : *schema, PlaceOf(at, "schema")));
  chat->json_schema = ToText(*schema);
  return Status::Ok();
}

// Reads the fields that make the prompt.
Result<TextRequest> ReadPrompt(const Json& body, std::optional<uint32_t> max_tokens) {
  for (const char* const field : {"container", "mcp_servers"}) {
    const Json* const found = FindMember(body, field);
    if (found != nullptr && !found->empty()) return RefusedAt(field, "it is not supported");
  }
  TextRequest request;
  request.max_tokens = max_tokens;
  CacheMarks marks;
  ATTNDB_RETURN_IF_ERROR(marks.Take(body, ""));
  ATTNDB_RETURN_IF_ERROR(ReadToolFields(body, &marks, &request.chat));
  ATTNDB_ASSIGN_OR_RETURN(History history, ReadHistory(body, &marks));
  request.messages = std::move(history.messages);
  request.chat.continues_last = history.continues_last;
  ATTNDB_RETURN_IF_ERROR(ReadThinking(body, &request));
  ATTNDB_RETURN_IF_ERROR(ReadOutput(body, &request.chat));
  request.min_ttl_seconds = marks.min_ttl_seconds();
  ATTNDB_RETURN_IF_ERROR(ReadEdits(body, &request.edits));
  return request;
}

Status CheckBody(const Json& body) {
  return body.is_object() ? Status::Ok() : Status::InvalidArgument("the body is no JSON object");
}

}  // namespace

Result<TextRequest> ParseMessages(const Json& body) {
  ATTNDB_RETURN_IF_ERROR(CheckBody(body));
  ATTNDB_ASSIGN_OR_RETURN(const auto max_tokens, CountOf(body, "", "max_tokens", 0, INT32_MAX));
  if (!max_tokens) return WrongValue("max_tokens", "an integer", Json());
  ATTNDB_ASSIGN_OR_RETURN(TextRequest request,
                          ReadPrompt(body, static_cast<uint32_t>(*max_tokens)));
  // Agents ask for as many as the largest model could give.
  request.lowers_max_tokens = true;
  ATTNDB_RETURN_IF_ERROR(ReadStops(body, &request.stop));
  ATTNDB_RETURN_IF_ERROR(ReadSampler(body, &request.sampler));
  ATTNDB_ASSIGN_OR_RETURN(request.stream, FlagOf(body, "", "stream"));
  return request;
}

Result<TextRequest> ParseTokenCount(const Json& body) {
  ATTNDB_RETURN_IF_ERROR(CheckBody(body));
  return ReadPrompt(body, std::nullopt);
}

}  // namespace attndb::server
