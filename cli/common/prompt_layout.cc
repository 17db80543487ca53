#include "cli/common/prompt_layout.h"

#include <algorithm>

namespace attndb::cli {

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
  return std::search(tokens.begin(), tokens.end(), part.begin(), part.end()) != tokens.end();
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

Result<PromptLayout> LayoutOf(const llama::LlamaEngine& engine, std::span<const TokenId> tokens) {
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

Result<std::vector<TokenId>> QuestionTokens(const llama::LlamaEngine& engine, PromptLayout layout,
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

Result<std::vector<TokenId>> DocumentTokens(const llama::LlamaEngine& engine, bool raw,
                                            std::string_view system, std::string_view document) {
  if (raw) return engine.Tokenize(document, /*add_special=*/true, /*parse_special=*/false);
  return engine.DocumentPrefix(system, document);
}

}  // namespace attndb::cli
