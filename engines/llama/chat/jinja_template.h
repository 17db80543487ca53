// A model's own chat template, in Jinja, rendered by llama.cpp's `common`: this pair of files alone
// includes it. Its code has no limits of time, memory or depth, so that only the program
// attndb-chat links this (chat_renderer.h).
//
// Errors:  kInvalidArgument: a template that can't be parsed, with the place; messages that are no
//          JSON array of messages; what the template itself raises.
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_JINJA_TEMPLATE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_JINJA_TEMPLATE_H_

#include <memory>
#include <string>

#include "attndb/result.h"
#include "engines/llama/chat/chat_input.h"

namespace attndb::llama {

class JinjaTemplate {
 public:
  static Result<JinjaTemplate> Parse(const TemplateText& text);

  JinjaTemplate(JinjaTemplate&&) noexcept;
  JinjaTemplate& operator=(JinjaTemplate&&) noexcept;
  ~JinjaTemplate();

  // The prompt's bytes, as llama.cpp's own server makes them.
  Result<std::string> Render(const ChatInput& input) const;

 private:
  struct Parsed;
  explicit JinjaTemplate(std::unique_ptr<Parsed> parsed);

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_JINJA_TEMPLATE_H_
