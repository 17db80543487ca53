#include "server/responses/response_request.h"

#include <cmath>
#include <set>
#include <utility>

#include "server/chat/tool_list.h"
#include "server/fields.h"
#include "server/openai/logit_bias.h"
#include "server/openai/reply_fields.h"

namespace attndb::server {
namespace {

constexpr const char* kPreviousId = "previous_response_id";

Status CheckRefusedFields(const Json& body) {
  for (const char* const field : {"conversation", "prompt", "background", "context_management"}) {
    const Json* const found = FindMember(body, field);
    if (found != nullptr && *found != false && !found->empty()) {
      return RefusedAt(field, "it is not supported");
    }
  }
  const Json* const include = FindMember(body, "include");
  if (include == nullptr) return Status::Ok();
  if (!include->is_array()) return WrongValue("include", "a list", *include);
  for (size_t i = 0; i < include->size(); ++i) {
    if ((*include)[i] != "message.output_text.logprobs") continue;
    return RefusedAt(EntryOf("include", i),
                     "logprobs are not supported: ask for a chat completion");
  }
  return Status::Ok();
}

// A tool in the form of Chat Completions.
Result<Json> ReadFunction(const Json& tool, const std::string& place) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(tool, place));
  if (type != "function") {
    return RefusedAt(place, "tools of type " + Shown(type) + " are not supported");
  }
  ATTNDB_ASSIGN_OR_RETURN(Json function, ReadFunctionWords(tool, place, kMaxToolNameBytes));
  if (const Json* const schema = FindMember(tool, "parameters")) {
    ATTNDB_RETURN_IF_ERROR(CheckObject(*schema, PlaceOf(place, "parameters")));
    function["parameters"] = *schema;
  }
  return function;
}

Status ReadFunctionChoice(const Json& body, const std::set<std::string>& names,
                          llama::ChatOptions* chat) {
  const std::string place = "tool_choice";
  const Json* const choice = FindMember(body, place.c_str());
  if (choice == nullptr || *choice == "auto") return Status::Ok();
  if (*choice == "none") {
    chat->tool_choice = llama::ToolChoice::kNone;
    return Status::Ok();
  }
  const bool is_named = choice->is_object() && choice->value("type", Json()) == "function";
  if (!is_named && *choice != "required") {
    return WrongValue(place, R"(none, auto, required or {"type":"function","name":NAME})", *choice);
  }
  return RequireCall(names, is_named ? choice : nullptr, chat);
}

Status ReadReasoningField(const Json& body, llama::ChatOptions* chat) {
  constexpr size_t kMaxEffortBytes = 64;
  const Json* const reasoning = FindMember(body, "reasoning");
  if (reasoning == nullptr) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(CheckObject(*reasoning, "reasoning"));
  const Json* const effort = FindMember(*reasoning, "effort");
  if (effort == nullptr) return Status::Ok();
  if (!effort->is_string() || effort->get_ref<const std::string&>().size() > kMaxEffortBytes) {
    return WrongValue("reasoning.effort", "none, or a word of the model's template", *effort);
  }
  if (*effort == "none") {
    chat->enable_thinking = false;
  } else {
    chat->variables["reasoning_effort"] = ToText(*effort);
  }
  return Status::Ok();
}

Status ReadTextFormat(const Json& body, llama::ChatOptions* chat) {
  const Json* const text = FindMember(body, "text");
  if (text == nullptr) return Status::Ok();
  ATTNDB_RETURN_IF_ERROR(CheckObject(*text, "text"));
  const Json* const format = FindMember(*text, "format");
  if (format == nullptr) return Status::Ok();
  const std::string place = "text.format";
  ATTNDB_ASSIGN_OR_RETURN(const std::string type, TypeOf(*format, place));
  if (type == "text") return Status::Ok();
  if (type == "json_object") {
    chat->json_schema = R"({"type":"object"})";
    return Status::Ok();
  }
  if (type != "json_schema") {
    return WrongValue(PlaceOf(place, "type"), "text, json_object or json_schema", type);
  }
  const Json* const schema = FindMember(*format, "schema");
  ATTNDB_RETURN_IF_ERROR(
      CheckObject(schema == nullptr ? Json() : *schema, PlaceOf(place, "schema")));
  chat->json_schema = ToText(*schema);
  return Status::Ok();
}

Status ReadResponseLimits(const Json& body, TextRequest* text) {
  ATTNDB_RETURN_IF_ERROR(ReadEdits(body, &text->edits));
  ATTNDB_ASSIGN_OR_RETURN(const auto most, CountOf(body, "", "max_output_tokens", 1, INT32_MAX));
  if (most) text->max_tokens = static_cast<uint32_t>(*most);
  const Json* const truncation = FindMember(body, "truncation");
  if (truncation == nullptr || *truncation == "auto") return Status::Ok();
  if (*truncation != "disabled") return WrongValue("truncation", "auto or disabled", *truncation);
  text->truncate = false;
  return Status::Ok();
}

// A text is the items of one message.
Result<Json> ItemsOf(const Json& body, const char* field, const char* role) {
  const Json* const found = FindMember(body, field);
  if (found == nullptr) return Json::array();
  if (found->is_array()) return *found;
  if (!found->is_string()) return WrongValue(field, "a text or items", *found);
  return Json::array({Json{{"type", "message"}, {"role", role}, {"content", *found}}});
}

// A number without the digits that a float adds to it: 0.95.
double Rounded(float number) { return std::round(1e6 * static_cast<double>(number)) / 1e6; }

// Returns the members of the request that its response repeats. Where the request says nothing, the
// response has the value that holds.
Json SettingsOf(const Json& body, const TextRequest& text) {
  const auto said = [&body](const char* field, Json other) {
    const Json* const found = FindMember(body, field);
    return found == nullptr ? std::move(other) : *found;
  };
  Json settings = {{"instructions", said("instructions", nullptr)},
                   {"max_output_tokens", said("max_output_tokens", nullptr)},
                   {"metadata", said("metadata", Json::object())},
                   {"parallel_tool_calls", text.chat.parallel_tool_calls.value_or(true)},
                   {"previous_response_id", said(kPreviousId, nullptr)},
                   {"reasoning", said("reasoning", nullptr)},
                   {"store", said("store", true)},
                   {"temperature", said("temperature", Rounded(text.sampler.temperature))},
                   {"text", said("text", Json{{"format", {{"type", "text"}}}})},
                   {"tool_choice", said("tool_choice", "auto")},
                   {"tools", said("tools", Json::array())},
                   {"top_p", said("top_p", Rounded(text.sampler.top_p))},
                   {"truncation", text.truncate ? "auto" : "disabled"},
                   {"user", said("user", nullptr)}};
  // They decide how the reply is read.
  for (const char* const field : {"reasoning_budget_tokens", "thinking_budget_tokens"}) {
    if (const Json* const found = FindMember(body, field)) settings[field] = *found;
  }
  return settings;
}

}  // namespace

Result<ResponseRequest> ParseResponse(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  ATTNDB_RETURN_IF_ERROR(CheckRefusedFields(body));
  ResponseRequest request;
  TextRequest& text = request.text;
  ATTNDB_RETURN_IF_ERROR(ReadResponseLimits(body, &text));
  text.lowers_max_tokens = true;
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "temperature", 0, 5, &text.sampler.temperature));
  ATTNDB_RETURN_IF_ERROR(ReadNumber(body, "top_p", 0, 1, &text.sampler.top_p));
  ATTNDB_ASSIGN_OR_RETURN(text.logit_bias, ReadLogitBias(body));
  ATTNDB_RETURN_IF_ERROR(ReadStop(body, &text.stop));
  ATTNDB_ASSIGN_OR_RETURN(text.stream, FlagOf(body, "", "stream"));
  const ToolListForm tools = {.place_of = [](size_t index) { return EntryOf("tools", index); },
                              .read = ReadFunction};
  ATTNDB_ASSIGN_OR_RETURN(const std::set<std::string> names, ReadToolList(body, tools, &text.chat));
  ATTNDB_RETURN_IF_ERROR(ReadFunctionChoice(body, names, &text.chat));
  if (FindMember(body, "parallel_tool_calls") != nullptr) {
    ATTNDB_ASSIGN_OR_RETURN(text.chat.parallel_tool_calls, FlagOf(body, "", "parallel_tool_calls"));
  }
  ATTNDB_RETURN_IF_ERROR(ReadReasoningField(body, &text.chat));
  ATTNDB_RETURN_IF_ERROR(ReadReasoningBudget(body, &text));
  ATTNDB_RETURN_IF_ERROR(ReadTextFormat(body, &text.chat));
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "store", &request.store));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, kPreviousId, &request.previous_id));
  const Json* const metadata = FindMember(body, "metadata");
  if (metadata != nullptr) ATTNDB_RETURN_IF_ERROR(CheckObject(*metadata, "metadata"));
  ATTNDB_ASSIGN_OR_RETURN(const Json instructions, ItemsOf(body, "instructions", "system"));
  ATTNDB_ASSIGN_OR_RETURN(request.instructions, ReadItems(instructions, "instructions", {}));
  ATTNDB_ASSIGN_OR_RETURN(request.input, ItemsOf(body, "input", "user"));
  if (request.input.size() > kMaxMessages ||
      (request.input.empty() && request.previous_id.empty())) {
    return WrongValue("input", "a text, or 1 to " + std::to_string(kMaxMessages) + " items",
                      request.input);
  }
  request.settings = SettingsOf(body, text);
  return request;
}

Status TakeConversation(ChatMessages before, ResponseRequest* request) {
  ATTNDB_ASSIGN_OR_RETURN(ChatMessages input, ReadItems(request->input, "input", before));
  request->conversation = std::move(before);
  for (llama::ChatMessage& message : input) request->conversation.push_back(std::move(message));
  request->text.messages = request->instructions;
  request->text.messages.insert(request->text.messages.end(), request->conversation.begin(),
                                request->conversation.end());
  if (request->text.messages.size() <= kMaxMessages) return Status::Ok();
  return Status::InvalidArgument("the conversation has more than " + std::to_string(kMaxMessages) +
                                 " messages");
}

std::string PreviousIdIn(const Json& body) {
  const Json* const id = FindMember(body, kPreviousId);
  return id != nullptr && id->is_string() ? id->get<std::string>() : std::string();
}

}  // namespace attndb::server
