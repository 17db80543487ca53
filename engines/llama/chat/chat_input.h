// A chat, the template that makes a prompt of it, and what comes out.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_INPUT_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_INPUT_H_

#include <string>

#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

// A template and the texts of the tokens that it may write.
struct TemplateText {
  std::string source;  // Jinja.
  std::string bos;     // The text of the vocabulary's first token; empty: it has none.
  std::string eos;
  std::string tool_source = {};  // The template for chats with tools; empty: `source`.
};

struct ChatInput {
  std::string messages;               // A JSON array of messages in the form of OpenAI's Chat API.
  ChatOptions options;                // With `now` set.
  bool add_generation_prompt = true;  // Whether the prompt ends where the assistant begins.
};

struct ChatPlan {
  std::string prompt;  // As llama.cpp's own server makes it, with the tokens that begin and end it.
  ReplyForm form;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_INPUT_H_
