// A chat, the prompt that the model's template makes of it, and how replies to it are read.
//
// Texts:   JSON where it is said, in the form of OpenAI's Chat Completions.
// Threads: plain values.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_PROMPT_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_PROMPT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/types.h"

namespace attndb::llama {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool", "developer".
  std::string content;
  // A JSON object with the other members of the message that a template may show: "tool_calls",
  // "tool_call_id", "name", "reasoning_content". Empty: none.
  std::string more = {};
  // A JSON array of the parts of `content`, for templates that show parts. Empty: `content` has
  // none.
  std::string parts = {};
};

enum class ToolChoice : uint8_t {
  kAuto,      // The model may call a tool.
  kNone,      // The template shows the tools, and a reply is a text.
  kRequired,  // A reply calls a tool.
};

// A template gets these besides the messages. They also say what replies may be.
struct ChatOptions {
  std::string tools;  // A JSON array of tools; empty: none. The template shows them in this order.
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;                      // With kRequired: the only one that may be called.
  std::optional<bool> parallel_tool_calls;    // nullopt: as the template can.
  std::string json_schema;                    // What a reply is to be; empty: any text.
  std::string reasoning_format = "deepseek";  // llama.cpp's name; "none": part of the content.
  std::optional<bool> enable_thinking;        // nullopt: as the template does.
  // The template's other variables: name -> JSON ("chat_template_kwargs").
  std::map<std::string, std::string> variables;
  // The last message is the assistant's, and the reply goes on with its content.
  bool continues_last = false;
  int64_t now =
      0;  // The time that the template sees, in seconds since 1970 in UTC; 0: the clock's.
};

// An item of a rendered prompt: a control token, or a text that is never parsed for control tokens.
struct PromptItem {
  std::string_view text;           // The text, or the control token's name. Not owned.
  std::optional<TokenId> control;  // nullopt: a text.
  // Whether the text keeps its spaces beside a control token that takes those of the template.
  bool is_content = false;
};

// Bytes [begin, end) of a rendered prompt, counted over the texts of its items.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// A text that starts a grammar which is not in force from the first token on.
struct GrammarTrigger {
  bool is_pattern = false;  // A regular expression of ECMAScript; false: a word.
  std::string text;
};

// llama.cpp says this of the replies to a prompt.
struct ReplyForm {
  // How a reply is read, in llama.cpp's own form; empty: all of it is content.
  std::string parser;
  std::string parser_id = {};     // A name of `parser`: its SHA-256. Empty: nobody needs it yet.
  int format = 0;                 // Which of llama.cpp's readers takes `parser`.
  std::string generation_prompt;  // The end of the prompt, which belongs to the reply.
  std::string grammar;            // GBNF that replies follow; empty: none.
  bool is_lazy = false;           // The grammar is in force behind one of `triggers` alone.
  std::vector<GrammarTrigger> triggers;
  std::vector<std::string>
      shown_tokens;               // Names of control tokens that are part of a reply's text.
  std::vector<std::string> stop;  // Texts that end a reply.
  bool can_think = false;         // Whether the template knows reasoning at all.
  std::string thinking_start;     // Empty: unknown.
  std::vector<std::string> thinking_ends;
};

struct ReadCall {
  std::string id;  // Empty: the model gave none.
  std::string name;
  std::string arguments;  // JSON, or the beginning of it.
};

// A reply, or as much of it as there is.
struct ReadReply {
  std::string content;
  std::string reasoning;
  std::vector<ReadCall> calls;
};

// A prompt by its items.
struct RenderedPrompt {
  std::vector<PromptItem> items;  // Without the model's begin-of-text token.
  // Where the content of each message is. Empty: the template does not show it as it is.
  std::vector<ByteRange> messages;
  ReplyForm form;
  std::vector<std::shared_ptr<const std::string>> texts;  // The items refer to these.

  // Adds what comes behind. `form` becomes that of `behind`.
  void Append(RenderedPrompt behind);
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_PROMPT_H_
