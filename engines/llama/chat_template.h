// The model's chat template, cut into the texts around the contents: control tokens are found in
// the template's own texts and never in a content.
//
// The template is rendered by llama.cpp (llama_chat_apply_template, which knows the common ones)
// with placeholders for the contents.
//
// Threads: thread-safe after Make.
// Without a template, texts are used bare, a line each.
// Errors:  kUnsupported (a template that llama.cpp does not know, or that changes contents).
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

// Whether llama.cpp can apply the chat template of a model file: "known", "unknown", "none", or ""
// if the file can't be read.
std::string TemplateOfFile(const std::string& path);

class ChatTemplate {
 public:
  // `source`: the template of the GGUF; empty = none.
  explicit ChatTemplate(std::string source);

  Result<std::string> Apply(std::span<const ChatMessage> messages, bool add_assistant) const;

  // LlamaEngine's calls of these names. What they give refers to the arguments' texts.
  Result<PromptParts> DocumentParts(std::string_view system, std::string_view document) const;
  Result<PromptParts> QuestionParts(std::string_view question) const;
  Result<PromptParts> NextTurnParts(std::string_view message) const;
  Result<PromptParts> ConversationParts(std::span<const ChatMessage> messages, size_t first) const;
  // The end of the user's message, and the assistant's header.
  Result<PromptParts> ReplyParts() const;

 private:
  // The texts around the contents of `messages`, one more than there are messages.
  Result<std::vector<std::string>> Markup(std::span<const std::string_view> roles) const;

  std::string source_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_
