// The items of a rendered prompt: control tokens, and texts that are never parsed for them.
//
// Items refer to the texts that they are made of.
//
// Errors:  as Tokenizer's.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_PROMPT_ITEMS_H_
#define ATTNDB_ENGINES_LLAMA_PROMPT_ITEMS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/tokenizer.h"

namespace attndb::llama {

// Cuts a template's text into its control tokens and the texts between them. llama.cpp says which
// control tokens there are.
Result<std::vector<PromptItem>> ItemsOfMarkup(const Tokenizer& tokenizer, std::string_view markup);

// Returns the items of all parts: those of each markup, and its content behind them.
Result<std::vector<PromptItem>> ItemsOfParts(const Tokenizer& tokenizer,
                                             std::span<const PromptPart> parts);

// Removes the spaces that control tokens take from the texts beside them, as the vocabulary says.
// A content keeps all of its spaces; no control token takes spaces beyond a content, even an empty
// one.
void StripSpaces(const Tokenizer& tokenizer, std::span<PromptItem> items);

// A run of a prompt: the texts between two control tokens, as one.
class PromptRun {
 public:
  // The run that begins with items[first]. It is empty if that is a control token.
  // `items` outlive this.
  PromptRun(std::span<const PromptItem> items, size_t first);

  std::string_view text() const { return text_; }
  size_t end_item() const { return end_; }  // The control token behind it, or items.size().

  // A byte of the prompt, by its item. At the run's end: the first byte of end_item().
  struct Place {
    size_t item = 0;
    size_t byte = 0;
  };
  // REQUIRES: at <= text().size().
  Place PlaceOf(size_t at) const;

 private:
  size_t first_;
  size_t end_;
  std::string text_;
  std::vector<size_t> ends_;  // Where each item ends in the text.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_PROMPT_ITEMS_H_
