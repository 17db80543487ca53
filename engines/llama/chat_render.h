// A chat's prompt by the model's own Jinja template, as items: LlamaEngine::Render.
//
// The template's own control tokens become items. No other text is ever parsed for control tokens:
// before the template is applied, each name of a control token in what the request says gets a mark
// behind its first character, a character that no text of the request holds. The marks are taken
// out of the prompt again.
//
// Errors:  as ChatRenderer's; kUnsupported: the model has no tokenizer.
// Threads: thread-safe, as the renderer is.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_RENDER_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_RENDER_H_

#include <span>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "engines/llama/chat/chat_renderer.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

class Tokenizer;

// The tokenizer sets these texts in front of a prompt and behind it. A template may write them,
// too. Empty: the tokenizer sets nothing.
struct AddedTexts {
  std::string front;
  std::string back;
};

// A prompt without the texts that the tokenizer adds by itself.
std::string_view WithoutAdded(std::string_view prompt, const AddedTexts& added);

Result<RenderedPrompt> RenderChat(const Tokenizer& tokenizer, const AddedTexts& added,
                                  std::span<const ChatMessage> messages, const ChatOptions& options,
                                  ChatRenderer* renderer);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_RENDER_H_
