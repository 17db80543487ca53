#include "server/routes/store_place.h"

#include <chrono>
#include <utility>
#include <vector>

#include "engines/llama/prompt_layout.h"

namespace attndb::server {
namespace {

void TakeLife(const ContextInfo& context, StoreOptions* store) {
  store->pin = context.pinned;
  store->ttl.reset();
  if (context.ttl_seconds) store->ttl = std::chrono::seconds(*context.ttl_seconds);
}

}  // namespace

DialoguePlace::DialoguePlace(const llama::LlamaEngine* engine, DB db, StoreOptions life)
    : engine_(engine), db_(std::move(db)), life_(std::move(life)) {}

Result<StoreOptions> DialoguePlace::Look(const std::string& name) {
  StoreOptions store = life_;
  store.replace = true;
  const Result<ContextInfo> holder = db_.Describe(name);
  if (holder.status().code() == StatusCode::kNotFound) return store;
  ATTNDB_RETURN_IF_ERROR(holder.status());
  if (holder->id != seen_ || holder->num_tokens != num_seen_) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, db_.Tokens(name));
    ATTNDB_ASSIGN_OR_RETURN(const auto layout,
                            llama::LayoutOf(*engine_, holder->text_layout, tokens));
    if (layout == llama::PromptLayout::kDocument) {
      return Status::InvalidArgument("'store_as': '" + name +
                                     "' is a document, which the turn would replace");
    }
    seen_ = holder->id;
    num_seen_ = holder->num_tokens;
  }
  TakeLife(*holder, &store);
  store.title = holder->title;
  return store;
}

Status FitAppend(const DB& db, const ContextInfo& began, StoreOptions* store) {
  const Result<ContextInfo> holder = db.Describe(began.name);
  const bool is_gone = holder.status().code() == StatusCode::kNotFound;
  if (!is_gone) ATTNDB_RETURN_IF_ERROR(holder.status());
  if (is_gone || holder->id != began.id || holder->num_tokens != began.num_tokens) {
    return Status::FailedPrecondition(
        "context '" + began.name + "' has changed since the append began: append the text again");
  }
  TakeLife(*holder, store);
  store->title = holder->title;
  ATTNDB_ASSIGN_OR_RETURN(store->note, db.Note(began.name));
  return Status::Ok();
}

}  // namespace attndb::server
