#include "engines/llama/chat_template.h"

#include <llama.h>

#include <utility>

namespace attndb::llama {
namespace {

// Between a document and the question about it, inside one message.
constexpr std::string_view kQuestionGap = "\n\n";

// Stands for the content of message `idx`: no template has it, and none changes it.
constexpr std::string_view kPlaceholder = "attndb7c1econtent";
std::string Placeholder(size_t idx) {
  return std::string(kPlaceholder) + std::to_string(idx) + "end";
}

Status NotOnce(std::string_view role) {
  return Status::Unsupported("the model's chat template does not show the '" + std::string(role) +
                             "' message exactly once");
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, const Tokenizer* tokenizer)
    : source_(std::move(source)), tokenizer_(tokenizer) {}

Result<std::string> ChatTemplate::Apply(std::span<const ChatMessage> messages,
                                        bool add_assistant) const {
  if (source_.empty()) return Status::Unsupported("the model file has no chat template");
  std::vector<llama_chat_message> chat;
  size_t bytes = source_.size();
  for (const ChatMessage& message : messages) {
    chat.push_back({message.role.c_str(), message.content.c_str()});
    bytes += message.role.size() + 2 * message.content.size();
  }
  std::string text(bytes, '\0');
  const auto apply = [&] {
    return llama_chat_apply_template(source_.c_str(), chat.data(), chat.size(), add_assistant,
                                     text.data(), static_cast<int32_t>(text.size()));
  };
  int32_t length = apply();
  if (length > static_cast<int32_t>(text.size())) {
    text.resize(static_cast<size_t>(length));
    length = apply();
  }
  if (length < 0) return Status::Unsupported("llama.cpp does not know the model's chat template");
  text.resize(static_cast<size_t>(length));
  return text;
}

Result<std::vector<std::string>> ChatTemplate::Markup(
    std::span<const std::string_view> roles) const {
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < roles.size(); ++i) {
    messages.push_back({std::string(roles[i]), Placeholder(i)});
  }
  ATTNDB_ASSIGN_OR_RETURN(std::string text, Apply(messages, /*add_assistant=*/true));
  std::vector<std::string> markup;
  size_t begin = 0;
  for (size_t i = 0; i < roles.size(); ++i) {
    const std::string placeholder = Placeholder(i);
    const size_t at = text.find(placeholder, begin);
    if (at == std::string::npos) return NotOnce(roles[i]);
    markup.push_back(text.substr(begin, at - begin));
    if (markup.back().find(kPlaceholder) != std::string::npos) return NotOnce(roles[i]);
    begin = at + placeholder.size();
  }
  markup.push_back(text.substr(begin));
  if (markup.back().find(kPlaceholder) != std::string::npos) return NotOnce(roles.back());
  return markup;
}

Result<std::vector<TokenId>> ChatTemplate::TokenizePieces(std::span<const Piece> pieces,
                                                          bool begins_text,
                                                          const TokenizeLimits& limits) const {
  std::vector<TokenId> tokens;
  if (begins_text) tokens = tokenizer_->BeginOfText();
  for (const Piece& piece : pieces) {
    if (piece.text.empty()) continue;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                            tokenizer_->Tokenize(piece.text, false, piece.is_markup, limits));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  return tokens;
}

Result<std::vector<TokenId>> ChatTemplate::DocumentPrefix(std::string_view system,
                                                          std::string_view document,
                                                          const TokenizeLimits& limits) const {
  if (source_.empty()) {
    const Piece pieces[] = {{system, false}, {document, false}};
    return TokenizePieces(pieces, true, limits);
  }
  if (system.empty()) {
    const std::string_view roles[] = {"user"};
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
    const Piece pieces[] = {{markup[0], true}, {document, false}};
    return TokenizePieces(pieces, true, limits);
  }
  const std::string_view roles[] = {"system", "user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  const Piece pieces[] = {{markup[0], true}, {system, false}, {markup[1], true}, {document, false}};
  return TokenizePieces(pieces, true, limits);
}

Result<std::vector<TokenId>> ChatTemplate::QuestionSuffix(std::string_view question) const {
  const std::string text = std::string(kQuestionGap).append(question);
  if (source_.empty()) {
    const Piece pieces[] = {{text, false}};
    return TokenizePieces(pieces, false);
  }
  const std::string_view roles[] = {"user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  const Piece pieces[] = {{text, false}, {markup[1], true}};
  return TokenizePieces(pieces, false);
}

Result<std::vector<TokenId>> ChatTemplate::FirstTurn(std::string_view system,
                                                     std::string_view message) const {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, DocumentPrefix(system, message));
  if (source_.empty()) return tokens;
  const std::string_view roles[] = {"user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  const Piece pieces[] = {{markup[1], true}};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> end, TokenizePieces(pieces, false));
  tokens.insert(tokens.end(), end.begin(), end.end());
  return tokens;
}

Result<std::vector<TokenId>> ChatTemplate::NextTurn(std::string_view message) const {
  if (source_.empty()) {
    const std::string text = std::string("\n").append(message);
    const Piece pieces[] = {{text, false}};
    return TokenizePieces(pieces, false);
  }
  const std::string_view roles[] = {"user", "assistant", "user"};
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> markup, Markup(roles));
  const Piece pieces[] = {{markup[2], true}, {message, false}, {markup[3], true}};
  return TokenizePieces(pieces, false);
}

Result<std::vector<TokenId>> ChatTemplate::Conversation(std::span<const ChatMessage> messages,
                                                        size_t first) const {
  std::vector<std::string> markup;
  if (source_.empty()) {
    markup.assign(messages.size() + 1, "\n");
    markup.front().clear();
    markup.back().clear();
  } else {
    std::vector<std::string_view> roles;
    for (const ChatMessage& message : messages) roles.push_back(message.role);
    ATTNDB_ASSIGN_OR_RETURN(markup, Markup(roles));
  }
  std::vector<Piece> pieces;
  for (size_t i = first; i < messages.size(); ++i) {
    pieces.push_back({markup[i], true});
    pieces.push_back({messages[i].content, false});
  }
  pieces.push_back({markup.back(), true});
  return TokenizePieces(pieces, first == 0);
}

}  // namespace attndb::llama
