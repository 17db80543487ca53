#include "engines/llama/chat_template.h"

#include <llama.h>

#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>

#include "engines/llama/gguf_file.h"

namespace attndb::llama {
namespace {

// Between a document and the question about it, inside one message.
constexpr std::string_view kQuestionGap = "\n\n";

// Stands for the content of message `idx`: no template has it, and none changes it.
constexpr std::string_view kPlaceholder = "attndb7c1econtent";
std::string Placeholder(size_t idx) {
  return std::string(kPlaceholder) + std::to_string(idx) + "end";
}

void AppendJsonString(std::string_view text, std::string* json) {
  *json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') *json += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      *json += escape;
    } else {
      *json += c;
    }
  }
  *json += '"';
}

std::string MessagesJson(std::span<const ChatMessage> messages) {
  std::string json = "[";
  for (const ChatMessage& message : messages) {
    json += json.size() == 1 ? R"({"role":)" : R"(,{"role":)";
    AppendJsonString(message.role, &json);
    json += R"(,"content":)";
    AppendJsonString(message.content, &json);
    json += '}';
  }
  return json + ']';
}

Status NotOnce(std::string_view role) {
  return Status::Unsupported("the model's chat template does not show the '" + std::string(role) +
                             "' message exactly once");
}

}  // namespace

std::string TemplateOfFile(const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(path);
  if (!file.ok()) return "";
  const std::optional<std::string> source = file->Text("tokenizer.chat_template");
  if (!source) return "none";
  return ChatTemplate({.source = *source, .bos = "", .eos = ""}).DocumentParts("", "x").ok()
             ? "known"
             : "unknown";
}

ChatTemplate::ChatTemplate(TemplateText text, AddedTokens added)
    : text_(std::move(text)),
      added_(added),
      renderer_(std::make_unique<ChatRenderer>(FindChatProgram(), text_)) {}

Result<std::string> ChatTemplate::Apply(std::span<const ChatMessage> messages,
                                        bool add_assistant) const {
  if (text_.source.empty()) return Status::Unsupported("the model file has no chat template");
  std::vector<llama_chat_message> chat;
  size_t bytes = text_.source.size();
  for (const ChatMessage& message : messages) {
    chat.push_back({message.role.c_str(), message.content.c_str()});
    bytes += message.role.size() + 2 * message.content.size();
  }
  std::string text(bytes, '\0');
  const auto apply = [&] {
    return llama_chat_apply_template(text_.source.c_str(), chat.data(), chat.size(), add_assistant,
                                     text.data(), static_cast<int32_t>(text.size()));
  };
  int32_t length = apply();
  if (length > static_cast<int32_t>(text.size())) {
    text.resize(static_cast<size_t>(length));
    length = apply();
  }
  if (length < 0) return Render(messages, add_assistant);
  text.resize(static_cast<size_t>(length));
  return text;
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         bool add_assistant) const {
  ChatInput input = {.messages = MessagesJson(messages), .options = {}};
  input.options.now = std::time(nullptr);
  input.add_generation_prompt = add_assistant;
  ATTNDB_ASSIGN_OR_RETURN(std::string text, renderer_->RenderText(input));
  if (added_.bos && text.starts_with(text_.bos)) text.erase(0, text_.bos.size());
  if (added_.eos && text.ends_with(text_.eos)) text.resize(text.size() - text_.eos.size());
  return text;
}

Result<std::vector<std::string>> ChatTemplate::Markup(
    std::span<const std::string_view> roles) const {
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < roles.size(); ++i) {
    messages.push_back({std::string(roles[i]), Placeholder(i)});
  }
  Result<std::string> applied = Apply(messages, /*add_assistant=*/true);
  const StatusCode code = applied.status().code();
  // Nothing that a user wrote: the template fails each time.
  if (code == StatusCode::kInvalidArgument || code == StatusCode::kResourceExhausted) {
    return Status::Unsupported(applied.status().message());
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, std::move(applied));
  std::vector<std::string> markup;
  size_t begin = 0;
  for (size_t i = 0; i < roles.size(); ++i) {
    const std::string placeholder = Placeholder(i);
    const size_t at = text.find(placeholder, begin);
    if (at == std::string::npos) return NotOnce(roles[i]);
    markup.push_back(text.substr(begin, at - begin));
    if (markup.back().find(kPlaceholder) != std::string::npos) return NotOnce(roles[i]);
    begin = at + placeholder.size();
  }
  markup.push_back(text.substr(begin));
  if (markup.back().find(kPlaceholder) != std::string::npos) return NotOnce(roles.back());
  return markup;
}

Result<PromptParts> ChatTemplate::DocumentParts(std::string_view system,
                                                std::string_view document) const {
  if (text_.source.empty()) {
    if (system.empty()) return PromptParts{{"", document}};
    return PromptParts{{"", system}, {"\n", document}};
  }
  if (system.empty()) {
    const std::string_view roles[] = {"user"};
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
    return PromptParts{{markup[0], document}};
  }
  const std::string_view roles[] = {"system", "user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  return PromptParts{{markup[0], system}, {markup[1], document}};
}

Result<PromptParts> ChatTemplate::QuestionParts(std::string_view question) const {
  ATTNDB_ASSIGN_OR_RETURN(PromptParts parts, ReplyParts());
  parts.insert(parts.begin(), {std::string(kQuestionGap), question});
  return parts;
}

Result<PromptParts> ChatTemplate::ReplyParts() const {
  if (text_.source.empty()) return PromptParts();
  const std::string_view roles[] = {"user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  return PromptParts{{markup[1], ""}};
}

Result<PromptParts> ChatTemplate::NextTurnParts(std::string_view message) const {
  if (text_.source.empty()) return PromptParts{{"\n", message}};
  const std::string_view roles[] = {"user", "assistant", "user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  return PromptParts{{markup[2], message}, {markup[3], ""}};
}

Result<PromptParts> ChatTemplate::ConversationParts(std::span<const ChatMessage> messages,
                                                    size_t first) const {
  std::vector<std::string> markup;
  if (text_.source.empty()) {
    markup.assign(messages.size() + 1, "\n");
    markup.front().clear();
    markup.back().clear();
  } else {
    std::vector<std::string_view> roles;
    for (const ChatMessage& message : messages) roles.push_back(message.role);
    ATTNDB_ASSIGN_OR_RETURN(markup, Markup(roles));
  }
  PromptParts parts;
  for (size_t i = first; i < messages.size(); ++i)
    parts.push_back({markup[i], messages[i].content});
  parts.push_back({markup.back(), ""});
  return parts;
}

}  // namespace attndb::llama
