#include "engines/llama/prompt_layout.h"

#include <algorithm>

namespace attndb::llama {

size_t CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < limit && a[length] == b[length]) ++length;
  return length;
}

size_t CommonSuffix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < limit && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

bool Contains(std::span<const TokenId> tokens, std::span<const TokenId> part) {
  return EndOfFirst(tokens, part).has_value();
}

std::optional<size_t> EndOfFirst(std::span<const TokenId> tokens, std::span<const TokenId> part) {
  const auto found = std::search(tokens.begin(), tokens.end(), part.begin(), part.end());
  if (found == tokens.end() && !part.empty()) return std::nullopt;
  return static_cast<size_t>(found - tokens.begin()) + part.size();
}

std::string_view PromptLayoutName(PromptLayout layout) {
  switch (layout) {
    case PromptLayout::kRaw:
      return "raw";
    case PromptLayout::kDocument:
      return "document";
    case PromptLayout::kDialogue:
      return "dialogue";
  }
  return "unknown";
}

Result<PromptLayout> LayoutOf(const LlamaEngine& engine, std::span<const TokenId> tokens) {
  if (!engine.info().has_chat_template) return PromptLayout::kRaw;
  // What all prompts begin with, whatever the system message: with two of them and without one.
  ATTNDB_ASSIGN_OR_RETURN(const auto a, engine.DocumentPrefix("A", "x"));
  ATTNDB_ASSIGN_OR_RETURN(const auto b, engine.DocumentPrefix("B", "x"));
  ATTNDB_ASSIGN_OR_RETURN(const auto none, engine.DocumentPrefix("", "x"));
  const std::span<const TokenId> both(a.data(), CommonPrefix(a, b));
  const size_t length = CommonPrefix(both, none);
  if (CommonPrefix(none, tokens) < length) return PromptLayout::kRaw;
  // And what all questions end with: the message's end and the assistant's header.
  ATTNDB_ASSIGN_OR_RETURN(const auto question_a, engine.QuestionSuffix("A"));
  ATTNDB_ASSIGN_OR_RETURN(const auto question_b, engine.QuestionSuffix("B"));
  const size_t header_length = CommonSuffix(question_a, question_b);
  const auto header = std::span<const TokenId>(question_a).last(header_length);
  if (header.empty()) return PromptLayout::kDocument;  // Nothing to tell them apart by.
  return Contains(tokens, header) ? PromptLayout::kDialogue : PromptLayout::kDocument;
}

Result<uint64_t> SystemTokens(const LlamaEngine& engine, std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const PromptLayout layout, LayoutOf(engine, tokens));
  if (layout == PromptLayout::kRaw) return 0;
  // What stands in front of a document, with a system message and without one.
  const auto head = [&engine](std::string_view system) -> Result<std::vector<TokenId>> {
    ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> x, engine.DocumentPrefix(system, "x"));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> y, engine.DocumentPrefix(system, "y"));
    x.resize(CommonPrefix(x, y));
    return x;
  };
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> a, head("A"));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> b, head("B"));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> none, head(""));
  const auto user_header = std::span<const TokenId>(a).last(CommonSuffix(a, b));
  if (user_header.empty() || user_header.size() == a.size())
    return 0;  // It takes no system message.
  if (CommonPrefix(tokens, none) == none.size()) {
    // The template's own system message, if it has one.
    return Contains(none, user_header) ? none.size() : 0;
  }
  return EndOfFirst(tokens, user_header).value_or(0);
}

Result<std::vector<TokenId>> QuestionTokens(const LlamaEngine& engine, PromptLayout layout,
                                            std::string_view question) {
  switch (layout) {
    case PromptLayout::kRaw:
      return engine.Tokenize(question, /*add_special=*/false, /*parse_special=*/false);
    case PromptLayout::kDocument:
      return engine.QuestionSuffix(question);
    case PromptLayout::kDialogue:
      return engine.NextTurn(question);
  }
  return Status::Internal("unknown prompt layout");
}

Result<std::vector<TokenId>> DocumentTokens(const LlamaEngine& engine, bool raw,
                                            std::string_view system, std::string_view document,
                                            const TokenizeLimits& limits) {
  if (raw) return engine.Tokenize(document, /*add_special=*/true, /*parse_special=*/false, limits);
  return engine.DocumentPrefix(system, document, limits);
}

}  // namespace attndb::llama
