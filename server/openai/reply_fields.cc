#include "server/openai/reply_fields.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/openai/chat_messages.h"

namespace attndb::server {
namespace {

constexpr const char* kReplyRole = "assistant";
constexpr const char* kEnableThinking = "enable_thinking";
constexpr size_t kMaxEffortBytes = 64;

// The schema of a reply; an empty one takes any object, as with llama.cpp's server.
Status TakeSchema(const Json& schema, const std::string& name, TextRequest* request) {
  if (!schema.is_object()) return WrongValue(name, "a JSON schema", schema);
  request->chat.json_schema = schema.empty() ? R"({"type":"object"})" : ToText(schema);
  return Status::Ok();
}

// {"type":"text"}, {"type":"json_object"} or {"type":"json_schema","json_schema":{"schema":{...}}}
Status ReadResponseFormat(const Json& format, TextRequest* request) {
  constexpr const char* kExpected = "an object whose type is text, json_object or json_schema";
  if (!format.is_object()) return WrongValue("response_format", kExpected, format);
  const Json type = format.value("type", Json());
  if (type == "text") return Status::Ok();
  if (type == "json_object") {
    const Json* const schema = FindMember(format, "schema");
    return TakeSchema(schema == nullptr ? Json::object() : *schema, "response_format.schema",
                      request);
  }
  if (type != "json_schema") return WrongValue("response_format", kExpected, format);
  const Json wrapper = format.value("json_schema", Json());
  if (!wrapper.is_object()) {
    return WrongValue("response_format.json_schema", "an object with a schema", wrapper);
  }
  const Json* const schema = FindMember(wrapper, "schema");
  return TakeSchema(schema == nullptr ? Json::object() : *schema,
                    "response_format.json_schema.schema", request);
}

Status ReadReasoningEffort(const Json& body, llama::ChatOptions* chat) {
  constexpr const char* kEffort = "reasoning_effort";
  const Json* const effort = FindMember(body, kEffort);
  if (effort == nullptr) return Status::Ok();
  if (!effort->is_string() || effort->get_ref<const std::string&>().size() > kMaxEffortBytes) {
    return WrongValue(kEffort, "none, or a word of the model's template, as low or high", *effort);
  }
  if (*effort == "none") {
    chat->enable_thinking = false;
    chat->variables.erase(kEffort);
  } else if (!effort->get_ref<const std::string&>().empty()) {
    chat->variables[kEffort] = ToText(*effort);
  }
  return Status::Ok();
}

// Whether the last message is to be continued, if the request says so.
Result<std::optional<bool>> ReadContinues(const Json& body) {
  constexpr const char* kContinue = "continue_final_message";
  const Json* const continues = FindMember(body, kContinue);
  if (continues == nullptr) return std::optional<bool>();
  if (continues->is_boolean()) return std::optional(continues->get<bool>());
  if (*continues == "content") return std::optional(true);
  return WrongValue(kContinue, "true, false or content", *continues);
}

}  // namespace

Status ReadReplyForm(const Json& body, TextRequest* request) {
  const Json* const format = FindMember(body, "response_format");
  if (format != nullptr) ATTNDB_RETURN_IF_ERROR(ReadResponseFormat(*format, request));
  bool has_schema = !request->chat.json_schema.empty();
  if (const Json* const schema = FindMember(body, "json_schema")) {
    if (has_schema) {
      return Status::InvalidArgument("'json_schema' and 'response_format' exclude each other");
    }
    ATTNDB_RETURN_IF_ERROR(TakeSchema(*schema, "json_schema", request));
    has_schema = true;
  }
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "grammar", &request->grammar));
  if (request->grammar.empty()) return Status::Ok();
  if (has_schema) return Status::InvalidArgument("'grammar' and a schema exclude each other");
  const llama::ChatOptions& chat = request->chat;
  if (chat.tools.empty() || chat.tool_choice == llama::ToolChoice::kNone) return Status::Ok();
  return Status::InvalidArgument("'grammar' and 'tools' exclude each other");
}

Status ReadTemplateVariables(const Json& variables, const std::string& name,
                             llama::ChatOptions* chat) {
  // The template gets these from elsewhere. Texts in variables are no contents: control tokens may
  // be found in them.
  constexpr std::array kOwn = {"messages", "tools", "add_generation_prompt", "bos_token",
                               "eos_token"};
  if (!variables.is_object()) return WrongValue(name, "an object", variables);
  for (const auto& [variable, value] : variables.items()) {
    const std::string place = name + "." + variable;
    if (std::ranges::find(kOwn, std::string_view(variable)) != kOwn.end()) {
      return Status::InvalidArgument("'" + place + "' is no variable that can be set");
    }
    if (variable == kEnableThinking) {
      if (!value.is_boolean()) return WrongValue(place, "true or false", value);
      chat->enable_thinking = value.get<bool>();
    } else {
      chat->variables[variable] = ToText(value);
    }
  }
  return Status::Ok();
}

// llama.cpp's server prefers the second name.
Status ReadReasoningBudget(const Json& body, TextRequest* request) {
  for (const char* const field : {"thinking_budget_tokens", "reasoning_budget_tokens"}) {
    const Json* const found = FindMember(body, field);
    if (found == nullptr) continue;
    const Json budget = WholeNumber(*found);
    const bool is_count = budget.is_number_unsigned() && budget.get<uint64_t>() <= INT32_MAX;
    // 2^64 - 1 equals -1, too.
    if (!is_count && (budget.is_number_unsigned() || budget != -1)) {
      return WrongValue(field, "-1, or how many tokens the model may think for", *found);
    }
    request->reasoning_budget = budget.get<int64_t>();
  }
  if (request->reasoning_budget == 0) request->chat.enable_thinking = false;
  constexpr const char* kMessage = "reasoning_budget_message";
  if (FindMember(body, kMessage) == nullptr) return Status::Ok();
  std::string& message = request->reasoning_message.emplace();
  ATTNDB_RETURN_IF_ERROR(ReadString(body, kMessage, &message));
  if (message.size() <= kMaxReasoningMessageBytes) return Status::Ok();
  return Status::InvalidArgument("'reasoning_budget_message' has " +
                                 std::to_string(message.size()) + " bytes, expected at most " +
                                 std::to_string(kMaxReasoningMessageBytes));
}

Status ReadThinking(const Json& body, TextRequest* request) {
  llama::ChatOptions* const chat = &request->chat;
  constexpr const char* kVariables = "chat_template_kwargs";
  if (const Json* const variables = FindMember(body, kVariables)) {
    ATTNDB_RETURN_IF_ERROR(ReadTemplateVariables(*variables, kVariables, chat));
  }
  if (FindMember(body, kEnableThinking) != nullptr) {
    ATTNDB_RETURN_IF_ERROR(ReadFlag(body, kEnableThinking, &chat->enable_thinking.emplace()));
  }
  ATTNDB_RETURN_IF_ERROR(ReadReasoningEffort(body, chat));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "reasoning_format", &chat->reasoning_format));
  constexpr std::array kFormats = {"none", "auto", "deepseek", "deepseek-legacy"};
  if (std::ranges::find(kFormats, std::string_view(chat->reasoning_format)) == kFormats.end()) {
    return WrongValue("reasoning_format", "none, auto, deepseek or deepseek-legacy",
                      chat->reasoning_format);
  }
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "reasoning_control", &request->controls_reasoning));
  return ReadReasoningBudget(body, request);
}

Status ReadContinuation(const Json& body, TextRequest* request) {
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<bool> asked, ReadContinues(body));
  const llama::ChatMessage& last = request->messages.back();
  const bool is_reply = last.role == kReplyRole;
  if (asked.value_or(false) && !is_reply) {
    return Status::InvalidArgument(
        "'continue_final_message' is true, and the last message is not the assistant's");
  }
  const bool continues = asked.value_or(is_reply);
  request->chat.continues_last = continues;
  bool begins = !continues;
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "add_generation_prompt", &begins));
  if (begins && asked.value_or(false)) {
    return Status::InvalidArgument(
        "'add_generation_prompt' and 'continue_final_message' exclude each other");
  }
  if (!begins && !continues) {
    return Status::InvalidArgument("'add_generation_prompt' is false, and no message is continued");
  }
  if (!continues) return Status::Ok();
  if (CallsTools(last)) {
    return Status::InvalidArgument("the last message calls tools: it can't be continued");
  }
  const size_t count = request->messages.size();
  if (count < 2 || request->messages[count - 2].role != kReplyRole) return Status::Ok();
  return Status::InvalidArgument("the last two messages are the assistant's: which is continued?");
}

Status ReadStop(const Json& body, std::vector<std::string>* stop) {
  const Json* const json = FindMember(body, "stop");
  if (json == nullptr) return Status::Ok();
  const std::string expected = "a text, or at most " + std::to_string(kMaxStops) +
                               " texts, of at most " + std::to_string(kMaxStopBytes) + " bytes";
  const Json texts = json->is_array() ? *json : Json::array({*json});
  if (texts.size() > kMaxStops) return WrongValue("stop", expected, *json);
  for (const Json& text : texts) {
    if (!text.is_string() || text.get_ref<const std::string&>().size() > kMaxStopBytes) {
      return WrongValue("stop", expected, text);
    }
    stop->push_back(text.get<std::string>());
  }
  return Status::Ok();
}

}  // namespace attndb::server
