#include "engines/llama/found_passages.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "attndb/context_name.h"

namespace attndb::llama {

void DropPassagesWithoutScore(FindResult* found) {
  constexpr double kLeastScore = 0.005;
  std::erase_if(found->passages,
                [](const Passage& passage) { return !(passage.score >= kLeastScore); });
}

Result<std::vector<std::string>> PassageTexts(const LlamaEngine& engine, const DB& db,
                                              const FindResult& found) {
  std::map<ContextId, std::vector<TokenId>> known;  // Empty: the context is gone.
  std::vector<std::string> texts;
  for (const Passage& passage : found.passages) {
    const auto [at, is_new] = known.try_emplace(passage.context_id);
    if (is_new) {
      Result<std::vector<TokenId>> tokens = db.Tokens(IdName(passage.context_id));
      if (tokens.status().code() != StatusCode::kNotFound) {
        ATTNDB_ASSIGN_OR_RETURN(at->second, std::move(tokens));
      }
    }
    const std::span<const TokenId> tokens = at->second;
    const uint64_t end = std::min<uint64_t>(passage.tokens.end, tokens.size());
    const uint64_t begin = std::min(passage.tokens.begin, end);
    ATTNDB_ASSIGN_OR_RETURN(std::string text,
                            engine.Detokenize(tokens.subspan(begin, end - begin)));
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> ContextsOf(std::span<const Passage> passages, uint32_t count) {
  std::vector<std::string> contexts;
  for (const Passage& passage : passages) {
    if (contexts.size() == count) break;
    std::string name = IdName(passage.context_id);
    if (std::ranges::find(contexts, name) == contexts.end()) contexts.push_back(std::move(name));
  }
  return contexts;
}

}  // namespace attndb::llama
