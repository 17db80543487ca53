#include "server/llama/completion_request.h"

#include <string_view>
#include <utility>

namespace attndb::server {
namespace {

// Reads all fields but the prompt.
Result<TextRequest> ParseBesidePrompt(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  Json others = Json::object();
  for (const auto& [name, value] : body.items()) {
    if (name != "prompt") others[name] = value;
  }
  others["prompt"] = "-";  // Any text.
  // llama.cpp's server prefers its own name.
  if (const Json* const count = FindMember(body, "n_cmpl")) others["n"] = *count;
  ATTNDB_ASSIGN_OR_RETURN(TextRequest request, ParseCompletion(others));
  request.prompt.clear();
  if (!request.max_tokens) request.fills_window = true;
  bool returns_tokens = false;
  ATTNDB_RETURN_IF_ERROR(ReadFlag(body, "return_tokens", &returns_tokens));
  request.tells_tokens = returns_tokens || request.stream;
  return request;
}

Status ReadPart(const Json& value, const std::string& field, std::vector<LlamaPromptPart>* parts) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!text.empty()) parts->push_back({.text = text, .ids = {}});
    return Status::Ok();
  }
  TokenId id = 0;
  if (!ReadTokenId(value, &id)) return WrongValue(field, "a text, or the id of a token", value);
  if (parts->empty() || parts->back().ids.empty()) parts->emplace_back();
  parts->back().ids.push_back(id);
  return Status::Ok();
}

// A text; or a list of texts and ids, which may be the one entry of a list.
Status ReadPrompt(const Json& prompt, std::vector<LlamaPromptPart>* parts) {
  if (prompt.is_array() && prompt.size() == 1 && prompt.front().is_array()) {
    return ReadPrompt(prompt.front(), parts);
  }
  if (!prompt.is_array()) {
    if (!prompt.is_string()) {
      return WrongValue("prompt", "a text, or a list of texts and ids of tokens", prompt);
    }
    return ReadPart(prompt, "prompt", parts);
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i].is_array()) return WrongValue("prompt", "one prompt a request", prompt);
    ATTNDB_RETURN_IF_ERROR(ReadPart(prompt[i], "prompt[" + std::to_string(i) + "]", parts));
  }
  return Status::Ok();
}

Status ReadNeeded(const Json& body, const char* name, std::string* value) {
  if (FindMember(body, name) == nullptr) return WrongValue(name, "a text", Json());
  return ReadString(body, name, value);
}

Result<std::vector<InfillFile>> ReadFiles(const Json& body) {
  std::vector<InfillFile> files;
  const Json* const list = FindMember(body, "input_extra");
  if (list == nullptr) return files;
  if (!list->is_array() || list->size() > kMaxInfillFiles) {
    return WrongValue("input_extra",
                      "at most " + std::to_string(kMaxInfillFiles) + " texts with file names",
                      *list);
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string name = "input_extra[" + std::to_string(i) + "]";
    const Json& given = (*list)[i];
    if (!given.is_object()) return WrongValue(name, "an object with text and filename", given);
    InfillFile file = {.name = "tmp", .text = {}};  // As llama.cpp's server names it.
    ATTNDB_RETURN_IF_ERROR(ReadNeeded(given, "text", &file.text).WithContext(name));
    ATTNDB_RETURN_IF_ERROR(ReadString(given, "filename", &file.name).WithContext(name));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Result<LlamaCompletion> ParseLlamaCompletion(const Json& body) {
  LlamaCompletion request;
  ATTNDB_ASSIGN_OR_RETURN(request.text, ParseBesidePrompt(body));
  const Json* const prompt = FindMember(body, "prompt");
  ATTNDB_RETURN_IF_ERROR(ReadPrompt(prompt == nullptr ? Json() : *prompt, &request.prompt));
  if (!request.prompt.empty()) return request;
  return WrongValue("prompt", "a text that is not empty, or ids of tokens", *prompt);
}

Result<InfillRequest> ParseInfill(const Json& body) {
  InfillRequest request;
  ATTNDB_ASSIGN_OR_RETURN(request.text, ParseBesidePrompt(body));
  ATTNDB_RETURN_IF_ERROR(ReadNeeded(body, "input_prefix", &request.prefix));
  ATTNDB_RETURN_IF_ERROR(ReadNeeded(body, "input_suffix", &request.suffix));
  ATTNDB_RETURN_IF_ERROR(ReadString(body, "prompt", &request.prompt));
  ATTNDB_ASSIGN_OR_RETURN(request.files, ReadFiles(body));
  return request;
}

Result<std::string> ParseChatControl(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  std::string id;
  ATTNDB_RETURN_IF_ERROR(ReadNeeded(body, "id", &id));
  if (id.empty()) return WrongValue("id", "the id of a chat's answer", id);
  std::string action;
  ATTNDB_RETURN_IF_ERROR(ReadNeeded(body, "action", &action));
  if (action != "reasoning_end") return WrongValue("action", "reasoning_end", action);
  constexpr std::string_view kPrefix = "chatcmpl-";
  return id.starts_with(kPrefix) ? id.substr(kPrefix.size()) : id;
}

Result<std::vector<TokenId>> ParseDetokenize(const Json& body) {
  if (!body.is_object()) return Status::InvalidArgument("the body is no JSON object");
  std::vector<TokenId> tokens;
  const Json* const ids = FindMember(body, "tokens");
  if (ids == nullptr) return tokens;
  if (!ids->is_array()) return WrongValue("tokens", "a list of ids of tokens", *ids);
  tokens.resize(ids->size());
  for (size_t i = 0; i < ids->size(); ++i) {
    if (!ReadTokenId((*ids)[i], &tokens[i])) {
      return WrongValue("tokens[" + std::to_string(i) + "]", "the id of a token", (*ids)[i]);
    }
  }
  return tokens;
}

}  // namespace attndb::server
