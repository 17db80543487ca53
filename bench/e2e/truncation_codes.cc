#include "bench/e2e/truncation_codes.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "bench/e2e/likelihood.h"

namespace attndb::bench {
namespace {

constexpr std::array<const char*, kCodesOfText> kNames = {
    "Oslo", "Lima", "Cairo", "Delhi", "Paris", "Tokyo", "Berlin", "Madrid", "Quebec", "Sydney"};
constexpr uint64_t kAfterTokens = 64;
// Tokens of what is left of a window before the first code: those that stay in front of it cost as
// many of the others.
constexpr uint64_t kMargin = 24;

std::string Digits(std::mt19937_64* random) {
  std::string digits;
  for (int i = 0; i < 5; ++i) digits += static_cast<char>('0' + (*random)() % 10);
  return digits;
}

void Add(std::span<const TokenId> more, std::vector<TokenId>* tokens) {
  tokens->insert(tokens->end(), more.begin(), more.end());
}

Result<bool> IsSaid(const CodeText::Code& code, llama::LlamaEngine* engine,
                    const Session& session) {
  ATTNDB_ASSIGN_OR_RETURN(Session fork, session.Fork());
  std::vector<TokenId> tokens = code.question;
  Add(code.answer, &tokens);
  bool right = true;
  llama::PrefillOptions options;
  options.on_logits = [&](uint64_t index, std::span<const float> logits) {
    const uint64_t next = index + 1;
    if (next < code.question.size() || next == tokens.size()) return;
    right = right && Likeliest(logits) == tokens[next];
  };
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(fork, tokens, options));
  return right;
}

}  // namespace

Result<CodeText> MakeCodeText(const llama::LlamaEngine& engine, const Window& window,
                              std::span<const TokenId> document, uint64_t begin, uint64_t seed) {
  if (document.size() < begin + window.tokens + kAfterTokens) {
    return Status::InvalidArgument("the document has " + std::to_string(document.size()) +
                                   " tokens, expected " +
                                   std::to_string(begin + window.tokens + kAfterTokens));
  }
  std::mt19937_64 random(seed);
  CodeText text;
  const uint64_t first = window.tokens - window.left + kMargin;
  Add(document.subspan(begin, first), &text.tokens);
  uint64_t at = begin + first;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const std::string question = std::string("\nThe code of ") + kNames[i] + " is";
    CodeText::Code code;
    ATTNDB_ASSIGN_OR_RETURN(code.question, engine.Tokenize(question, false, false));
    ATTNDB_ASSIGN_OR_RETURN(code.answer, engine.Tokenize(" " + Digits(&random), false, false));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> end, engine.Tokenize(".\n", false, false));
    Add(code.question, &text.tokens);
    Add(code.answer, &text.tokens);
    Add(end, &text.tokens);
    text.codes.push_back(std::move(code));
    // What of the window is left, in equal parts behind the codes.
    const uint64_t want = first + (window.tokens - first) * (i + 1) / kNames.size();
    if (text.tokens.size() > want) {
      return Status::InvalidArgument("a window of " + std::to_string(window.tokens) +
                                     " tokens has no room for the codes");
    }
    const uint64_t more = want - text.tokens.size();
    Add(document.subspan(at, more), &text.tokens);
    at += more;
  }
  Add(document.subspan(at, kAfterTokens), &text.after);
  return text;
}

Result<std::vector<bool>> AskCodesOf(const CodeText& text, Session& session,
                                     llama::LlamaEngine* engine) {
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(session, text.after));
  std::vector<bool> said;
  for (const CodeText::Code& code : text.codes) {
    ATTNDB_ASSIGN_OR_RETURN(const bool is_said, IsSaid(code, engine, session));
    said.push_back(is_said);
  }
  return said;
}

Result<std::vector<std::vector<bool>>> AskCodes(const CodeText& text, std::span<const Way> ways,
                                                const Window& window, const DB& db,
                                                llama::LlamaEngine* engine) {
  ATTNDB_ASSIGN_OR_RETURN(Session full, EmptySession(Way::kFull, db, *engine));
  ATTNDB_RETURN_IF_ERROR(engine->Prefill(full, text.tokens));
  std::vector<std::vector<bool>> said;
  for (const Way way : ways) {
    ATTNDB_ASSIGN_OR_RETURN(Session fork, full.Fork());
    ATTNDB_ASSIGN_OR_RETURN(Session session,
                            Truncate(way, window, db, engine, text.tokens, std::move(fork)));
    ATTNDB_ASSIGN_OR_RETURN(std::vector<bool> of_way, AskCodesOf(text, session, engine));
    said.push_back(std::move(of_way));
  }
  return said;
}

}  // namespace attndb::bench
