// Renders chats with a model's own template, reads replies and compiles JSON schemas, in processes
// of the program attndb-chat, which lies beside this one.
//
// The processes have limits (chat_limits.h), because a template, a schema or a reply may loop for
// ever, fill the memory, or end the process. There is one process for each of the three: a slow
// template keeps no stream waiting.
//
// Errors:  as ChatChild's. kInvalidArgument: the template, the chat, the schema or the reply, in
//          llama.cpp's words.
// Threads: thread-safe; requests of a kind wait for each other.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_RENDERER_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_RENDERER_H_

#include <map>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "engines/llama/chat/chat_child.h"
#include "engines/llama/chat/chat_input.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

// ReplyForm::parser_id.
std::string ParserIdOf(const std::string& parser);

class ChatRenderer {
 public:
  // `program`: the path of attndb-chat; empty: there is none.
  ChatRenderer(const std::string& program, const TemplateText& text);

  bool has_program() const { return has_program_; }

  // Sees that the template can be parsed.
  Status Check();
  // LlamaEngine::ChatTemplateCaps.
  Result<std::map<std::string, bool>> Caps();
  Result<ChatPlan> Render(const ChatInput& input);
  // The prompt alone.
  Result<std::string> RenderText(const ChatInput& input);

  // LlamaEngine::ReadReplyText and GrammarOfSchema.
  Result<ReadReply> Read(const ReplyForm& form, std::string_view text, bool is_partial);
  Result<std::string> GrammarOfSchema(std::string_view json_schema);

 private:
  const bool has_program_;
  ChatChild templates_;
  ChatChild replies_;
  ChatChild schemas_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_RENDERER_H_
