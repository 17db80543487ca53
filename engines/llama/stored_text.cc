#include "engines/llama/stored_text.h"

#include <cstddef>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "engines/llama/utf8_bytes.h"
#include "engines/llama/window.h"

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

// The contexts with which an import of this name may go on: the name's own first, then those
// without a name, the newest first.
Result<std::vector<ContextInfo>> EarlierImports(const LlamaEngine& engine, const DB& db,
                                                const std::string& name) {
  constexpr size_t kMost = 8;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> all, db.List());
  std::vector<ContextInfo> found;
  for (const bool is_named : {true, false}) {
    if (is_named && name.empty()) continue;
    for (auto context = all.rbegin(); context != all.rend(); ++context) {
      if (found.size() == kMost || context->name != (is_named ? name : "")) continue;
      if (context->fingerprint == engine.spec().fingerprint) found.push_back(*context);
    }
  }
  return found;
}

// Whether a stored text has words of the document, which begins where the messages of `text` say.
bool HasItsWords(std::span<const TokenId> stored, const PromptText& text) {
  const auto& messages = text.text.messages;
  return !messages.empty() && CommonPrefix(stored, text.tokens) > messages.back().tokens.begin;
}

}  // namespace

Result<StoredText> TextOf(const LlamaEngine& engine, const DB& db, const std::string& context,
                          bool render_special) {
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
  // The ids of a damaged context are read, too.
  const bool is_ours = info.fingerprint == engine.spec().fingerprint;
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                          is_ours ? db.Tokens(context) : TokensOf(engine, db, context));
  StoredText stored = {.num_tokens = tokens.size(), .text = {}};
  // It keeps its id when it grows.
  if (info.num_tokens == tokens.size()) {
    tokens = Without(tokens, PiecesOf(info.cuts, info.text_layout));
  }
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

Result<PromptText> ImportedText(const LlamaEngine& engine, const DB& db,
                                const ImportedDocument& document, const TokenizeLimits& limits) {
  const auto text_at = [&](int64_t now) {
    return DocumentText(engine, document.raw, document.system, document.text, limits, now);
  };
  if (document.raw || engine.ChatTime() == 0) return text_at(0);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> earlier,
                          EarlierImports(engine, db, document.name));
  std::set<int64_t> tried;
  for (const ContextInfo& context : earlier) {
    const std::string id = IdName(context.id);
    const Result<ContextInfo> info = db.Describe(id);
    if (info.status().code() == StatusCode::kNotFound) continue;  // It was dropped meanwhile.
    ATTNDB_RETURN_IF_ERROR(info.status());
    const int64_t time = info->text_layout.rendered_at;
    if (time == 0 || !tried.insert(time).second) continue;
    ATTNDB_ASSIGN_OR_RETURN(PromptText text, text_at(time));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> stored, db.Tokens(id));
    if (HasItsWords(stored, text)) return text;
  }
  return text_at(0);
}

}  // namespace attndb::llama
