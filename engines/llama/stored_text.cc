#include "engines/llama/stored_text.h"

#include "engines/llama/prompt_layout.h"

namespace attndb::llama {
namespace {

// A context's ids, if they are this model's. The store refuses others by name, and says whose they
// are.
Result<std::vector<TokenId>> TokensOf(const LlamaEngine& engine, const DB& db,
                                      const std::string& context) {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, db.Tokens(context));
  SessionOptions named;
  named.context = context;
  ATTNDB_RETURN_IF_ERROR(db.CreateSession(engine.spec(), tokens, named).status());
  return tokens;
}

}  // namespace

Result<StoredText> TextOf(const LlamaEngine& engine, const DB& db, const std::string& context,
                          bool render_special) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  // The ids of a damaged context are read, too.
  const bool is_ours = info.fingerprint == engine.spec().fingerprint;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                          is_ours ? db.Tokens(context) : TokensOf(engine, db, context));
  StoredText stored = {.num_tokens = tokens.size(), .text = {}};
  ATTNDB_ASSIGN_OR_RETURN(stored.text, engine.Detokenize(tokens, render_special));
  return stored;
}

Result<std::vector<TokenId>> AppendedTokens(const LlamaEngine& engine, const DB& db,
                                            const std::string& context, std::string_view text,
                                            const TokenizeLimits& limits) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TokensOf(engine, db, context));
  if (info.num_dropped > 0) {
    return Status::FailedPrecondition("'" + context +
                                      "' has lost tokens: what is appended would not see its text");
  }
  ATTNDB_ASSIGN_OR_RETURN(const PromptLayout layout, LayoutOf(engine, tokens));
  if (layout == PromptLayout::kDialogue) {
    return Status::FailedPrecondition("'" + context +
                                      "' is a dialogue; 'attndb chat' goes on with it");
  }
  ATTNDB_ASSIGN_OR_RETURN(
      const std::vector<TokenId> more,
      engine.Tokenize(text, /*add_special=*/false, /*parse_special=*/false, limits));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

}  // namespace attndb::llama
