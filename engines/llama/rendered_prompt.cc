#include "engines/llama/rendered_prompt.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engines/llama/prompt_items.h"

namespace attndb::llama {

void RenderedPrompt::Append(RenderedPrompt behind) {
  uint64_t num_bytes = 0;
  for (const PromptItem& item : items) num_bytes += item.text.size();
  for (ByteRange& message : behind.messages) {
    message.begin += num_bytes;
    message.end += num_bytes;
  }
  std::ranges::copy(behind.items, std::back_inserter(items));
  std::ranges::copy(behind.messages, std::back_inserter(messages));
  std::ranges::move(behind.texts, std::back_inserter(texts));
  form = std::move(behind.form);
}

Result<RenderedPrompt> RenderedTokens(const Tokenizer& tokenizer, std::span<const TokenId> tokens) {
  RenderedPrompt prompt;
  const auto add = [&prompt](std::string text, std::optional<TokenId> control) {
    if (text.empty()) return;
    prompt.texts.push_back(std::make_shared<const std::string>(std::move(text)));
    prompt.items.push_back({*prompt.texts.back(), control, /*is_content=*/true});
  };
  const std::vector<TokenId> begin_of_text = tokenizer.BeginOfText();
  size_t begin = 0;
  if (!begin_of_text.empty() &&
      std::ranges::equal(tokens.first(std::min(tokens.size(), size_t{1})), begin_of_text)) {
    begin = 1;
  }
  while (begin < tokens.size()) {
    size_t end = begin;
    while (end < tokens.size() && !tokenizer.IsControl(tokens[end])) ++end;
    ATTNDB_ASSIGN_OR_RETURN(std::string text,
                            tokenizer.Detokenize(tokens.subspan(begin, end - begin), false));
    add(std::move(text), std::nullopt);
    if (end == tokens.size()) break;
    ATTNDB_ASSIGN_OR_RETURN(std::string name, tokenizer.Detokenize(tokens.subspan(end, 1), true));
    add(std::move(name), tokens[end]);
    begin = end + 1;
  }
  return prompt;
}

Result<RenderedPrompt> RenderedParts(const Tokenizer& tokenizer,
                                     std::span<const PromptPart> parts) {
  RenderedPrompt prompt;
  PromptParts own(parts.begin(), parts.end());
  for (PromptPart& part : own) {
    prompt.texts.push_back(std::make_shared<const std::string>(part.content));
    part.content = *prompt.texts.back();
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<PromptItem> items, ItemsOfParts(tokenizer, own));
  uint64_t num_bytes = 0;
  for (PromptItem item : items) {
    if (item.is_content) {
      prompt.messages.push_back({num_bytes, num_bytes + item.text.size()});
    } else {
      prompt.texts.push_back(std::make_shared<const std::string>(item.text));
      item.text = *prompt.texts.back();
    }
    num_bytes += item.text.size();
    prompt.items.push_back(item);
  }
  return prompt;
}

}  // namespace attndb::llama
