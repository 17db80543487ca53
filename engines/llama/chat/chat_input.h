// A chat, and the template that makes a prompt of it.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_INPUT_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_INPUT_H_

#include <cstdint>
#include <map>
#include <string>

namespace attndb::llama {

// A template and the texts of the tokens that it may write.
struct TemplateText {
  std::string source;  // Jinja.
  std::string bos;     // The text of the vocabulary's first token; empty: it has none.
  std::string eos;
};

struct ChatInput {
  std::string messages;               // A JSON array of messages in the form of OpenAI's Chat API.
  bool add_generation_prompt = true;  // Whether the prompt ends where the assistant begins.
  // The template's other variables: name -> JSON.
  std::map<std::string, std::string> variables;
  int64_t now = 0;  // The time that the template sees, in seconds since 1970 in UTC.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_INPUT_H_
