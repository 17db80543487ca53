#include "engines/llama/chat_template.h"

#include <llama.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "engines/llama/chat_json.h"
#include "engines/llama/gguf_file.h"
#include "engines/llama/message_places.h"
#include "engines/llama/rendered_prompt.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {
namespace {

// Whether a template reads the time, by the names that llama.cpp has for it.
bool MayAskTheTime(std::string_view source) {
  for (const std::string_view name : {"strftime_now", "date_string", "datetime"}) {
    if (source.find(name) != std::string_view::npos) return true;
  }
  return false;
}

constexpr size_t kMostKept = 64;

Status NotOnce() {
  return Status::Unsupported(
      "the model's chat template does not show each message exactly once, as it is");
}

}  // namespace

struct ChatTemplate::Kept {
  struct Entry {
    std::string text;
    int64_t made_at = 0;  // 0: the template has no clock.
  };

  std::mutex mutex;
  std::map<std::string, Entry> texts;
  std::once_flag known_once;
  bool is_known = false;  // Written under known_once.
};

std::string TemplateOfFile(const std::string& path) {
  const Result<GgufFile> file = GgufFile::Open(path);
  if (!file.ok()) return "";
  const std::optional<std::string> source = file->Text("tokenizer.chat_template");
  if (!source) return "none";
  return ChatTemplate({.source = *source, .bos = "", .eos = ""}).IsKnown() ? "known" : "unknown";
}

ChatTemplate::ChatTemplate(TemplateText text, AddedTexts added, std::function<int64_t()> clock)
    : text_(std::move(text)),
      added_(std::move(added)),
      program_(FindChatProgram()),
      renderer_(std::make_unique<ChatRenderer>(program_, text_)),
      clock_(clock != nullptr ? std::move(clock) : [] { return int64_t{std::time(nullptr)}; }),
      has_clock_(renderer_->has_program() && MayAskTheTime(text_.source)),
      kept_(std::make_unique<Kept>()) {}
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::IsKnown() const {
  std::call_once(kept_->known_once, [this] {
    kept_->is_known = !text_.source.empty() && DocumentParts("", "x").ok();
  });
  return kept_->is_known;
}

Status ChatTemplate::Check() const {
  if (renderer_->has_program()) return renderer_->Check();
  const ChatMessage message = {"user", "x"};
  return Apply(std::span(&message, 1)).status();
}

Result<std::map<std::string, bool>> ChatTemplate::Caps() const {
  if (text_.source.empty()) return Status::Unsupported("the model file has no chat template");
  return renderer_->Caps();
}

int64_t ChatTemplate::ChatTime() const { return has_clock_ ? clock_() : 0; }

Result<std::string> ChatTemplate::Apply(std::span<const ChatMessage> messages, int64_t now) const {
  if (text_.source.empty()) return Status::Unsupported("the model file has no chat template");
  if (renderer_->has_program()) return ApplyJinja(messages, now);
  std::vector<llama_chat_message> chat;
  size_t bytes = text_.source.size();
  for (const ChatMessage& message : messages) {
    chat.push_back({message.role.c_str(), message.content.c_str()});
    bytes += message.role.size() + 2 * message.content.size();
  }
  std::string text(bytes, '\0');
  const auto apply = [&] {
    return llama_chat_apply_template(text_.source.c_str(), chat.data(), chat.size(),
                                     /*add_ass=*/true, text.data(),
                                     static_cast<int32_t>(text.size()));
  };
  int32_t length = apply();
  if (length > static_cast<int32_t>(text.size())) {
    text.resize(static_cast<size_t>(length));
    length = apply();
  }
  if (length < 0) return renderer_->Check();  // Says what is missing.
  text.resize(static_cast<size_t>(length));
  return text;
}

Result<std::string> ChatTemplate::ApplyJinja(std::span<const ChatMessage> messages,
                                             int64_t now) const {
  ATTNDB_ASSIGN_OR_RETURN(std::string json, MessagesJson(messages));
  ChatInput input = {.messages = std::move(json), .options = {}};
  input.options.now = now != 0 ? now : clock_();
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, renderer_->RenderText(input));
  return std::string(WithoutAdded(text, added_));
}

Result<std::string> ChatTemplate::KeptText(std::span<const ChatMessage> messages,
                                           int64_t now) const {
  std::string key;
  for (const ChatMessage& message : messages) {
    key.append(message.role).append("\n").append(message.content).append("\n");
  }
  if (now == 0 || !has_clock_) now = ChatTime();
  {
    const std::lock_guard<std::mutex> lock(kept_->mutex);
    const auto found = kept_->texts.find(key);
    if (found != kept_->texts.end() && found->second.made_at == now) return found->second.text;
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string text, Apply(messages, now));
  const std::lock_guard<std::mutex> lock(kept_->mutex);
  if (kept_->texts.size() >= kMostKept) kept_->texts.clear();
  kept_->texts[key] = {text, now};
  return text;
}

Result<std::vector<std::string>> ChatTemplate::MarkupOf(std::span<const ChatMessage> messages,
                                                        std::span<const std::string> placeholders,
                                                        int64_t now) const {
  Result<std::string> applied = KeptText(messages, now);
  const StatusCode code = applied.status().code();
  // Nothing that a user wrote: the template fails each time.
  if (code == StatusCode::kInvalidArgument || code == StatusCode::kResourceExhausted) {
    return Status::Unsupported(applied.status().message());
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::string text, std::move(applied));
  std::vector<std::string> markup;
  size_t begin = 0;
  for (const std::string& placeholder : placeholders) {
    const size_t at = text.find(placeholder, begin);
    if (at == std::string::npos) return NotOnce();
    markup.push_back(text.substr(begin, at - begin));
    if (markup.back().find(kPlaceholder) != std::string::npos) return NotOnce();
    begin = at + placeholder.size();
  }
  markup.push_back(text.substr(begin));
  if (markup.back().find(kPlaceholder) != std::string::npos) return NotOnce();
  return markup;
}

Result<std::vector<std::string>> ChatTemplate::Markup(std::span<const std::string_view> roles,
                                                      int64_t now) const {
  std::vector<ChatMessage> messages;
  std::vector<std::string> placeholders;
  for (const std::string_view role : roles) {
    placeholders.push_back(Placeholder(placeholders.size()));
    messages.push_back({std::string(role), placeholders.back()});
  }
  return MarkupOf(messages, placeholders, now);
}

Result<std::vector<std::string>> ChatTemplate::DocumentMarkup(bool has_system, int64_t now) const {
  if (now == 0) now = ChatTime();  // One time for both questions.
  std::vector<std::vector<std::string>> markups;
  for (const size_t question : {size_t{2}, size_t{30}}) {
    std::vector<ChatMessage> messages;
    std::vector<std::string> placeholders;
    if (has_system) {
      placeholders.push_back(Placeholder(0));
      messages.push_back({"system", placeholders.back()});
    }
    placeholders.insert(placeholders.end(), {Placeholder(1), Placeholder(question)});
    messages.push_back({"user", Placeholder(1) + std::string(kQuestionGap) + placeholders.back()});
    ATTNDB_ASSIGN_OR_RETURN(std::vector<std::string> markup, MarkupOf(messages, placeholders, now));
    markup.pop_back();
    if (markup.back() != kQuestionGap) return NotOnce();
    markup.pop_back();
    markups.push_back(std::move(markup));
  }
  if (markups[0] != markups[1]) {
    return Status::Unsupported(
        "what the model's chat template writes before a document depends on the question behind "
        "it");
  }
  return std::move(markups[0]);
}

Result<PromptParts> ChatTemplate::DocumentParts(std::string_view system, std::string_view document,
                                                int64_t now) const {
  if (text_.source.empty()) {
    if (system.empty()) return PromptParts{{"", document}};
    return PromptParts{{"", system}, {"\n", document}};
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup,
                          DocumentMarkup(!system.empty(), now));
  if (system.empty()) return PromptParts{{markup[0], document}};
  return PromptParts{{markup[0], system}, {markup[1], document}};
}

Result<PromptParts> ChatTemplate::QuestionParts(std::string_view question, int64_t now) const {
  ATTNDB_ASSIGN_OR_RETURN(PromptParts parts, ReplyParts(now));
  parts.insert(parts.begin(), {std::string(kQuestionGap), question});
  return parts;
}

Result<PromptParts> ChatTemplate::ReplyParts(int64_t now) const {
  if (text_.source.empty()) return PromptParts();
  const std::string_view roles[] = {"user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles, now));
  return PromptParts{{markup[1], ""}};
}

Result<PromptParts> ChatTemplate::NextTurnParts(std::string_view message, int64_t now) const {
  if (text_.source.empty()) return PromptParts{{"\n", message}};
  const std::string_view roles[] = {"user", "assistant", "user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles, now));
  return PromptParts{{markup[2], message}, {markup[3], ""}};
}

Result<PromptParts> ChatTemplate::ConversationParts(std::span<const ChatMessage> messages,
                                                    size_t first, int64_t now) const {
  std::vector<std::string> markup;
  if (text_.source.empty()) {
    markup.assign(messages.size() + 1, "\n");
    markup.front().clear();
    markup.back().clear();
  } else {
    std::vector<std::string_view> roles;
    for (const ChatMessage& message : messages) roles.push_back(message.role);
    ATTNDB_ASSIGN_OR_RETURN(markup, Markup(roles, now));
  }
  PromptParts parts;
  for (size_t i = first; i < messages.size(); ++i)
    parts.push_back({markup[i], messages[i].content});
  parts.push_back({markup.back(), ""});
  return parts;
}

Result<RenderedPrompt> ChatTemplate::Render(const Tokenizer& tokenizer,
                                            std::span<const ChatMessage> messages,
                                            const ChatOptions& options) const {
  if (messages.empty()) return Status::InvalidArgument("conversation of 0 messages");
  if (options.continues_last && messages.back().role != "assistant") {
    return Status::InvalidArgument(
        "the last message is not the assistant's: no reply goes on with "
        "it");
  }
  if (text_.source.empty() || !renderer_->has_program()) {
    return RenderByParts(tokenizer, messages, options);
  }
  if (options.now != 0) return RenderChat(tokenizer, added_, messages, options, renderer_.get());
  ChatOptions dated = options;
  dated.now = clock_();
  return RenderChat(tokenizer, added_, messages, dated, renderer_.get());
}

Result<RenderedPrompt> ChatTemplate::RenderByParts(const Tokenizer& tokenizer,
                                                   std::span<const ChatMessage> messages,
                                                   const ChatOptions& options) const {
  const bool has_more = std::ranges::any_of(
      messages, [](const ChatMessage& message) { return !message.more.empty(); });
  if (!options.tools.empty() || has_more) {
    return Status::Unsupported(text_.source.empty()
                                   ? "the model has no chat template, which tools need"
                                   : "tools need the program attndb-chat, which is not there");
  }
  const size_t num_whole = messages.size() - (options.continues_last ? 1 : 0);
  PromptParts parts;
  if (num_whole > 0) {
    ATTNDB_ASSIGN_OR_RETURN(parts, ConversationParts(messages.first(num_whole), 0, options.now));
  }
  if (options.continues_last) {
    // Behind the assistant's header, which has no content of its own.
    if (!parts.empty()) parts.back().content = messages.back().content;
    if (parts.empty()) parts.push_back({"", messages.back().content});
    if (text_.source.empty() && num_whole > 0) parts.back().markup = "\n";
  }
  ATTNDB_ASSIGN_OR_RETURN(RenderedPrompt prompt, RenderedParts(tokenizer, parts));
  prompt.messages.resize(messages.size());  // The last part may be the assistant's header.
  if (!options.json_schema.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(prompt.form.grammar, GrammarOfSchema(options.json_schema));
  }
  return prompt;
}

Result<ReadReply> ChatTemplate::ReadReplyText(const ReplyForm& form, std::string_view text,
                                              bool is_partial) const {
  return renderer_->Read(form, text, is_partial);
}

Result<std::string> ChatTemplate::GrammarOfSchema(std::string_view json_schema) const {
  return renderer_->GrammarOfSchema(json_schema);
}

}  // namespace attndb::llama
