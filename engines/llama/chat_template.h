// The model's chat template, cut into the texts around the contents: control tokens are found in
// the template's own texts and never in a content.
//
// The template is rendered as Jinja (chat/chat_renderer.h), with placeholders for the contents.
// Without the program attndb-chat, llama.cpp's own forms of the common templates are used
// (llama_chat_apply_template).
//
// Threads: thread-safe.
// Without a template, texts are used bare, a line each.
// Errors:  kUnsupported: a template that changes contents, or whose text before a document depends
//          on the question; one that llama.cpp has no form of where there is no Jinja; those of
//          ChatRenderer.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/chat/chat_input.h"
#include "engines/llama/chat/chat_renderer.h"
#include "engines/llama/chat_render.h"
#include "engines/llama/llama_engine.h"

namespace attndb::llama {

class Tokenizer;

// Whether the chat template of a model file can be applied: "known", "unknown", "none", or "" if
// the file can't be read.
std::string TemplateOfFile(const std::string& path);

class ChatTemplate {
 public:
  // `text`: the template of the GGUF; an empty source: none.
  // `clock`: the time in seconds since 1970 in UTC; null: the system's.
  explicit ChatTemplate(TemplateText text, AddedTexts added = {},
                        std::function<int64_t()> clock = nullptr);
  ~ChatTemplate();

  // The path of attndb-chat; empty: there is none.
  const std::string& program() const { return program_; }
  // Whether the template can be applied. Finds it out once, by applying it.
  bool IsKnown() const;
  // Sees that the template can be parsed. Errors: kInvalidArgument, with the place.
  Status Check() const;
  // LlamaEngine::ChatTemplateCaps.
  Result<std::map<std::string, bool>> Caps() const;

  // `now`: the time that the template sees; 0 is the clock's, as of all calls here.
  Result<std::string> Apply(std::span<const ChatMessage> messages, int64_t now = 0) const;

  // LlamaEngine's calls of these names. What they give refers to the arguments' texts.
  Result<PromptParts> DocumentParts(std::string_view system, std::string_view document,
                                    int64_t now = 0) const;
  Result<PromptParts> QuestionParts(std::string_view question, int64_t now = 0) const;
  Result<PromptParts> NextTurnParts(std::string_view message, int64_t now = 0) const;
  Result<PromptParts> ConversationParts(std::span<const ChatMessage> messages, size_t first,
                                        int64_t now = 0) const;
  // The end of the user's message, and the assistant's header.
  Result<PromptParts> ReplyParts(int64_t now = 0) const;

  // LlamaEngine's calls of these names.
  int64_t ChatTime() const;
  Result<RenderedPrompt> Render(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                const ChatOptions& options) const;
  Result<ReadReply> ReadReplyText(const ReplyForm& form, std::string_view text,
                                  bool is_partial) const;
  Result<std::string> GrammarOfSchema(std::string_view json_schema) const;

 private:
  // The text of a chat that no user wrote, up to where the assistant begins. Such texts are kept:
  // a prompt takes several, often the same.
  Result<std::string> KeptText(std::span<const ChatMessage> messages, int64_t now) const;
  // The texts around the placeholders, one more than there are.
  Result<std::vector<std::string>> MarkupOf(std::span<const ChatMessage> messages,
                                            std::span<const std::string> placeholders,
                                            int64_t now) const;
  // The texts around the contents of messages with these roles.
  Result<std::vector<std::string>> Markup(std::span<const std::string_view> roles,
                                          int64_t now) const;
  // The texts before a system message and before a document. They are the same for each question
  // behind the document.
  Result<std::vector<std::string>> DocumentMarkup(bool has_system, int64_t now) const;

  // By Jinja.
  Result<std::string> ApplyJinja(std::span<const ChatMessage> messages, int64_t now) const;

  // Without Jinja: from the texts around the contents.
  Result<RenderedPrompt> RenderByParts(const Tokenizer& tokenizer,
                                       std::span<const ChatMessage> messages,
                                       const ChatOptions& options) const;

  const TemplateText text_;
  const AddedTexts added_;
  const std::string program_;
  const std::unique_ptr<ChatRenderer> renderer_;
  const std::function<int64_t()> clock_;
  const bool has_clock_;  // Whether the template may ask for the time.
  struct Kept;
  const std::unique_ptr<Kept> kept_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_
