#include "engines/llama/prompt_layout.h"

#include <algorithm>
#include <utility>

#include "attndb/context_name.h"
#include "engines/llama/utf8_bytes.h"
#include "engines/llama/window.h"

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

namespace {

// By ids alone.
Result<PromptLayout> GuessLayout(const LlamaEngine& engine, std::span<const TokenId> tokens) {
  // No document was stored by a template that can't be applied.
  if (!engine.KnowsChatTemplate()) return PromptLayout::kRaw;
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

// By ids alone.
Result<uint64_t> GuessSystemTokens(const LlamaEngine& engine, std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const PromptLayout layout, GuessLayout(engine, tokens));
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

TextForm FormOf(PromptLayout layout) {
  switch (layout) {
    case PromptLayout::kRaw:
      return TextForm::kRaw;
    case PromptLayout::kDocument:
      return TextForm::kDocument;
    case PromptLayout::kDialogue:
      return TextForm::kDialogue;
  }
  return TextForm::kUnknown;
}

}  // namespace

Result<PromptLayout> LayoutOf(const LlamaEngine& engine, const TextLayout& text,
                              std::span<const TokenId> tokens) {
  for (const PromptLayout layout :
       {PromptLayout::kRaw, PromptLayout::kDocument, PromptLayout::kDialogue}) {
    if (text.form == FormOf(layout)) return layout;
  }
  return GuessLayout(engine, tokens);
}

namespace {

// `has_pieces`: the tokens of pieces that left the text are among the context's.
Result<StoredContext> OpenStored(const LlamaEngine& engine, const DB& db,
                                 const std::string& context, bool has_pieces) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  StoredContext stored;
  // By its id: another process may give the name to another context between the two calls.
  ATTNDB_ASSIGN_OR_RETURN(stored.tokens, db.Tokens(IdName(info.id)));
  // It keeps its id when it grows.
  if (info.num_tokens == stored.tokens.size()) {
    stored.text = info.text_layout;
    if (!has_pieces) TakeOut(PiecesOf(info.cuts, stored.text), &stored.tokens, &stored.text);
  }
  ATTNDB_ASSIGN_OR_RETURN(stored.layout, LayoutOf(engine, stored.text, stored.tokens));
  return stored;
}

}  // namespace

Result<StoredContext> OpenContext(const LlamaEngine& engine, const DB& db,
                                  const std::string& context) {
  return OpenStored(engine, db, context, /*has_pieces=*/false);
}

Result<StoredContext> OpenWholeContext(const LlamaEngine& engine, const DB& db,
                                       const std::string& context) {
  return OpenStored(engine, db, context, /*has_pieces=*/true);
}

Result<uint64_t> SystemTokens(const LlamaEngine& engine, const TextLayout& text,
                              std::span<const TokenId> tokens) {
  if (text.messages.size() < 2 || text.messages.front().role != TextRole::kSystem) {
    return text.form == TextForm::kRaw ? Result<uint64_t>(0) : GuessSystemTokens(engine, tokens);
  }
  return text.messages[1].tokens.begin;
}

Result<PromptText> QuestionBehind(const LlamaEngine& engine, const StoredContext& context,
                                  std::string_view question, bool keeps_before,
                                  const TokenizeLimits& limits) {
  PromptParts parts = {{"", question}};
  const int64_t now = context.text.rendered_at;
  if (context.layout == PromptLayout::kDocument) {
    ATTNDB_ASSIGN_OR_RETURN(parts, engine.QuestionParts(question, now));
  } else if (context.layout == PromptLayout::kDialogue) {
    ATTNDB_ASSIGN_OR_RETURN(parts, engine.NextTurnParts(question, now));
  }
  ATTNDB_ASSIGN_OR_RETURN(
      JoinedText joined,
      engine.Join(context.tokens, parts, {.keeps_before = keeps_before, .limits = limits}));
  const TextRole roles[] = {TextRole::kUser};
  PromptText prompt = {{}, joined.num_kept, Continued(context.text, joined, roles)};
  prompt.tokens = std::move(joined.tokens);
  return prompt;
}

Result<PromptText> DocumentText(const LlamaEngine& engine, bool raw, std::string_view system,
                                std::string_view document, const TokenizeLimits& limits,
                                int64_t now) {
  if (now == 0) now = engine.ChatTime();
  document = WithoutBom(document);
  PromptParts parts = {{"", document}};
  if (!raw) {
    Result<PromptParts> by_template = engine.DocumentParts(system, document, now);
    if (by_template.status().code() == StatusCode::kUnsupported) {
      return Status::Unsupported(by_template.status().message() +
                                 "; --raw (\"raw\": true to a server) takes the text alone");
    }
    ATTNDB_ASSIGN_OR_RETURN(parts, std::move(by_template));
  } else if (!system.empty()) {
    parts = {{"", system}, {"\n", document}};
  }
  ATTNDB_ASSIGN_OR_RETURN(JoinedText joined, engine.Join({}, parts, {.limits = limits}));
  const bool is_bare = raw || !engine.info().has_chat_template;
  const TextRole all[] = {TextRole::kSystem, TextRole::kUser};
  const auto roles = std::span(all).last(parts.size());
  const TextLayout begun =
      is_bare ? TextLayout{TextForm::kRaw, {}} : TextLayout{TextForm::kDocument, {}, now};
  PromptText stored = {{}, 0, Continued(begun, joined, roles)};
  stored.tokens = std::move(joined.tokens);
  return stored;
}

TextLayout FirstOf(TextLayout text, uint64_t num_tokens) {
  for (TextMessage& message : text.messages) {
    message.tokens.end = std::min(message.tokens.end, num_tokens);
  }
  std::erase_if(text.messages, [](const TextMessage& message) {
    return message.tokens.begin >= message.tokens.end;
  });
  for (TokenRange& range : text.left_out) range.end = std::min(range.end, num_tokens);
  std::erase_if(text.left_out, [](const TokenRange& range) { return range.begin >= range.end; });
  return text;
}

namespace {

// Where a token stands once the ranges are gone. A token of a range: where the range was.
uint64_t MovedUp(uint64_t token, std::span<const TokenRange> left_out) {
  uint64_t num_gone = 0;
  for (const TokenRange& range : left_out) {
    if (token <= range.begin) break;
    num_gone += std::min(token, range.end) - range.begin;
  }
  return token - num_gone;
}

}  // namespace

std::vector<TokenId> Without(std::span<const TokenId> tokens,
                             std::span<const TokenRange> left_out) {
  std::vector<TokenId> kept;
  uint64_t begin = 0;
  const auto keep = [&](uint64_t end) {
    const std::span<const TokenId> part = tokens.subspan(begin, end - begin);
    kept.insert(kept.end(), part.begin(), part.end());
  };
  for (const TokenRange& range : left_out) {
    keep(range.begin);
    begin = range.end;
  }
  keep(tokens.size());
  return kept;
}

void TakeOut(std::span<const TokenRange> left_out, std::vector<TokenId>* tokens, TextLayout* text) {
  text->left_out.clear();
  if (left_out.empty()) return;
  *tokens = Without(*tokens, left_out);
  for (TextMessage& message : text->messages) {
    message.tokens = {MovedUp(message.tokens.begin, left_out),
                      MovedUp(message.tokens.end, left_out)};
  }
  std::erase_if(text->messages, [](const TextMessage& message) {
    return message.tokens.begin == message.tokens.end;
  });
}

TextLayout Continued(TextLayout before, const JoinedText& joined, std::span<const TextRole> roles) {
  TextLayout text = FirstOf(std::move(before), joined.num_kept);
  if (text.form == TextForm::kUnknown || text.form == TextForm::kRaw) return text;
  for (size_t i = 0; i < roles.size(); ++i) {
    if (joined.contents[i].begin == joined.contents[i].end) continue;
    text.messages.push_back({roles[i], joined.contents[i]});
  }
  // Its form is known all the same.
  if (text.messages.size() > TextLayout::kMaxMessages) text.messages.clear();
  return text;
}

void AddReply(TokenRange reply, TextLayout* text) {
  if (text->form == TextForm::kUnknown || text->form == TextForm::kRaw) return;
  text->form = TextForm::kDialogue;
  if (reply.begin >= reply.end) return;
  text->messages.push_back({TextRole::kAssistant, reply});
  if (text->messages.size() > TextLayout::kMaxMessages) text->messages.clear();
}

Result<bool> BeginsWithText(const LlamaEngine& engine, std::span<const TokenId> tokens,
                            std::span<const TokenId> beginning) {
  const size_t num_same = CommonPrefix(tokens, beginning);
  if (num_same == beginning.size()) return true;
  ATTNDB_ASSIGN_OR_RETURN(const std::string end,
                          engine.Detokenize(beginning.subspan(num_same), /*render_special=*/true));
  ATTNDB_ASSIGN_OR_RETURN(const std::string rest,
                          engine.Detokenize(tokens.subspan(num_same), /*render_special=*/true));
  return rest.starts_with(end);
}

}  // namespace attndb::llama
