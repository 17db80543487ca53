#include "server/llama/infill_prompt.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace attndb::server {
namespace {

using Tokens = std::vector<TokenId>;

void Append(const Tokens& more, Tokens* tokens) {
  tokens->insert(tokens->end(), more.begin(), more.end());
}

// The texts in front of the file that is filled in.
Tokens FilesInFront(const llama::FimTokens& fim, const InfillTexts& texts) {
  Tokens tokens;
  if (fim.repository) {
    tokens.push_back(*fim.repository);
    Append(texts.repository, &tokens);
  }
  for (const InfillTexts::File& file : texts.files) {
    if (fim.file) {
      tokens.push_back(*fim.file);
      Append(file.name, &tokens);
    } else {
      Append(texts.separator, &tokens);
    }
    Append(file.text, &tokens);
  }
  if (fim.file) {
    tokens.push_back(*fim.file);
    Append(texts.own_name, &tokens);
  }
  return tokens;
}

// The last `count` of them.
void KeepLast(uint64_t count, Tokens* tokens) {
  if (tokens->size() <= count) return;
  tokens->erase(tokens->begin(), tokens->end() - static_cast<std::ptrdiff_t>(count));
}

}  // namespace

std::vector<TokenId> InfillTokens(const llama::FimTokens& fim, std::optional<TokenId> begin,
                                  const InfillTexts& texts, const InfillLimits& limits) {
  Tokens tokens = FilesInFront(fim, texts);
  KeepLast(limits.file_tokens, &tokens);
  if (begin) tokens.push_back(*begin);
  tokens.push_back(*fim.prefix);
  Tokens prefix = texts.prefix;
  KeepLast(3 * (limits.near_tokens / 4), &prefix);
  Append(prefix, &tokens);
  Append(texts.prompt, &tokens);
  tokens.push_back(*fim.suffix);
  const uint64_t quarter = limits.near_tokens / 4;
  const uint64_t taken = std::min<uint64_t>(quarter, 2 + texts.prompt.size());
  const uint64_t num_suffix = std::min<uint64_t>(texts.suffix.size(), quarter - taken);
  tokens.insert(tokens.end(), texts.suffix.begin(),
                texts.suffix.begin() + static_cast<std::ptrdiff_t>(num_suffix));
  tokens.push_back(*fim.middle);
  return tokens;
}

Status CheckFillsIn(const llama::FimTokens& fim) {
  std::string missing;
  if (!fim.prefix) missing += " prefix";
  if (!fim.suffix) missing += " suffix";
  if (!fim.middle) missing += " middle";
  if (missing.empty()) return Status::Ok();
  return Status::Unsupported("this model fills in no text: its vocabulary has no token for" +
                             missing);
}

Result<std::vector<TokenId>> InfillPrompt(const llama::LlamaEngine& engine,
                                          const InfillRequest& request, const InfillLimits& limits,
                                          const llama::TokenizeLimits& tokenize) {
  const llama::FimTokens& fim = engine.info().fim;
  ATTNDB_RETURN_IF_ERROR(CheckFillsIn(fim));
  const auto tokens = [&](const std::string& text, bool parse_special = false) {
    return engine.Tokenize(text, /*add_special=*/false, parse_special, tokenize);
  };
  InfillTexts texts;
  // The names that llama.cpp's server has, which takes none from the request.
  ATTNDB_ASSIGN_OR_RETURN(texts.repository, tokens("myproject\n"));
  ATTNDB_ASSIGN_OR_RETURN(texts.own_name, tokens("filename\n"));
  ATTNDB_ASSIGN_OR_RETURN(texts.separator, tokens("\n\n--- snippet ---\n\n"));
  for (const InfillFile& file : request.files) {
    InfillTexts::File made;
    ATTNDB_ASSIGN_OR_RETURN(made.name, tokens(file.name + "\n"));
    ATTNDB_ASSIGN_OR_RETURN(made.text, tokens(file.text));
    texts.files.push_back(std::move(made));
  }
  ATTNDB_ASSIGN_OR_RETURN(texts.prefix, tokens(request.prefix));
  ATTNDB_ASSIGN_OR_RETURN(texts.suffix, tokens(request.suffix));
  ATTNDB_ASSIGN_OR_RETURN(texts.prompt, tokens(request.prompt, /*parse_special=*/true));
  ATTNDB_ASSIGN_OR_RETURN(const Tokens begun, engine.Tokenize("", /*add_special=*/true, false));
  const auto begin = begun.empty() ? std::nullopt : std::optional(begun.front());
  return InfillTokens(fim, begin, texts, limits);
}

}  // namespace attndb::server
