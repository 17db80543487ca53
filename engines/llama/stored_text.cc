#include "engines/llama/stored_text.h"

#include <utility>
#include <vector>

#include "engines/llama/utf8_bytes.h"

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

Result<PromptText> AppendedText(const LlamaEngine& engine, const DB& db, const std::string& context,
                                std::string_view text, const TokenizeLimits& limits) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  ATTNDB_RETURN_IF_ERROR(TokensOf(engine, db, context).status());
  if (info.num_dropped > 0) {
    return Status::FailedPrecondition("'" + context +
                                      "' has lost tokens: what is appended would not see its text");
  }
  ATTNDB_ASSIGN_OR_RETURN(StoredContext stored, OpenContext(engine, db, context));
  if (stored.layout == PromptLayout::kDialogue) {
    return Status::FailedPrecondition("'" + context +
                                      "' is a dialogue; 'attndb chat' goes on with it");
  }
  const PromptPart part = {"", WithoutBom(text)};
  ATTNDB_ASSIGN_OR_RETURN(JoinedText joined,
                          engine.Join(stored.tokens, std::span(&part, 1), {.limits = limits}));
  // The document's message is longer now.
  PromptText appended = {{}, joined.num_kept, std::move(stored.text)};
  if (!appended.text.messages.empty()) {
    appended.text.messages.back().tokens.end = joined.tokens.size();
  }
  appended.tokens = std::move(joined.tokens);
  return appended;
}

}  // namespace attndb::llama
