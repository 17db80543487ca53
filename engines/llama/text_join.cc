#include "engines/llama/text_join.h"

#include <string>

#include "engines/llama/prompt_items.h"
#include "engines/llama/run_joiner.h"

namespace attndb::llama {

Result<JoinedText> JoinText(const Tokenizer& tokenizer, std::span<const TokenId> before,
                            std::span<const PromptPart> parts, const JoinOptions& options) {
  ATTNDB_RETURN_IF_ERROR(tokenizer.CheckIds(before));
  return WithoutExceptions([&]() -> Result<JoinedText> {
    ATTNDB_ASSIGN_OR_RETURN(std::vector<PromptItem> items, ItemsOfParts(tokenizer, parts));
    StripSpaces(tokenizer, items);
    RunJoiner joiner(tokenizer, before, options);
    for (const PromptItem& item : items) {
      if (joiner.has_enough()) break;
      ATTNDB_RETURN_IF_ERROR(joiner.Add(item));
    }
    return joiner.Finish(parts.size());
  });
}

Result<std::vector<TokenId>> TokenizedAtOnce(const Tokenizer& tokenizer,
                                             std::span<const TokenId> tokens,
                                             const TokenizeLimits& limits) {
  std::vector<TokenId> whole;
  LimitWatch watch(limits);
  for (size_t begin = 0; begin < tokens.size() && !watch.has_enough();) {
    size_t end = begin;
    while (end < tokens.size() && !tokenizer.IsBetweenTexts(tokens, end)) ++end;
    ATTNDB_ASSIGN_OR_RETURN(const std::string text,
                            tokenizer.Detokenize(tokens.subspan(begin, end - begin), false));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                            tokenizer.Tokenize(text, false, false, limits));
    whole.insert(whole.end(), ids.begin(), ids.end());
    ATTNDB_RETURN_IF_ERROR(watch.AddRun(text.size(), whole.size()));
    for (; end < tokens.size() && tokenizer.IsBetweenTexts(tokens, end); ++end) {
      whole.push_back(tokens[end]);
    }
    begin = end;
  }
  return whole;
}

}  // namespace attndb::llama
