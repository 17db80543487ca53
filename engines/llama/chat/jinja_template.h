// A model's own chat template, in Jinja, applied by llama.cpp's `common`. Its code has no limits of
// time, memory or depth, so that only the program attndb-chat links this (chat_renderer.h).
//
// Errors:  kInvalidArgument: a template that can't be parsed, with the place; messages or tools
//          that are no JSON array of these; what the template itself raises; tools or a schema for
//          which llama.cpp can't make a reader of replies.
// Threads: one thread at a time.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_JINJA_TEMPLATE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_JINJA_TEMPLATE_H_

#include <map>
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

  // The prompt's bytes and the form of replies, as llama.cpp's own server makes them. Some
  // templates have no form that llama.cpp can find out. Without tools and schema, a reply to them
  // is content.
  Result<ChatPlan> Render(const ChatInput& input) const;

  // Tells what the template can show, by llama.cpp's names: "supports_tools" and others.
  std::map<std::string, bool> Caps() const;

  // The prompt alone. Faster, for chats whose replies nobody reads.
  Result<std::string> RenderText(const ChatInput& input) const;

 private:
  class Parsed;
  explicit JinjaTemplate(std::unique_ptr<Parsed> parsed);

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_JINJA_TEMPLATE_H_
