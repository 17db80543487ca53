// The model's chat template, cut into the texts around the contents, so that markup and contents
// are tokenized apart: contents are never parsed for control tokens, and ids never depend on what
// comes after.
//
// The template is rendered by llama.cpp (llama_chat_apply_template, which knows the common ones)
// with placeholders for the contents.
//
// Threads: thread-safe after Make.
// Errors:  kUnsupported (a template that llama.cpp does not know, or that changes contents).
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

class ChatTemplate {
 public:
  // `source`: the template of the GGUF; empty = none: texts are used bare. `tokenizer` outlives
  // this.
  ChatTemplate(std::string source, const Tokenizer* tokenizer);

  Result<std::string> Apply(std::span<const ChatMessage> messages, bool add_assistant) const;

  Result<std::vector<TokenId>> DocumentPrefix(std::string_view system, std::string_view document,
                                              const TokenizeLimits& limits = {}) const;
  Result<std::vector<TokenId>> QuestionSuffix(std::string_view question) const;
  Result<std::vector<TokenId>> FirstTurn(std::string_view system, std::string_view message) const;
  Result<std::vector<TokenId>> NextTurn(std::string_view message) const;
  // LlamaEngine::Conversation.
  Result<std::vector<TokenId>> Conversation(std::span<const ChatMessage> messages,
                                            size_t first) const;

 private:
  // A run of text that is either the template's or someone's.
  struct Piece {
    std::string_view text;
    bool is_markup = false;
  };

  // The texts around the contents of `messages`, one more than there are messages.
  Result<std::vector<std::string>> Markup(std::span<const std::string_view> roles) const;
  Result<std::vector<TokenId>> TokenizePieces(std::span<const Piece> pieces, bool begins_text,
                                              const TokenizeLimits& limits = {}) const;

  std::string source_;
  const Tokenizer* tokenizer_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_TEMPLATE_H_
