#include "cli/common/import_run.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "cli/common/evicted.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"
#include "cli/common/waiters.h"
#include "engines/llama/prompt_layout.h"

namespace attndb::cli {
namespace {

// Two imports that let each other pass would do little else without.
constexpr double kLeastSeconds = 2;
// A waiting process may be stopped; the import then continues.
constexpr double kMostPauseSeconds = 5;
constexpr useconds_t kLookMicros = 50'000;

}  // namespace

RoomOptions ImportRun::RoomOf(const llama::LlamaEngine& engine, uint64_t checkpoint_tokens) {
  return {.checkpoint_tokens =
              std::max<uint64_t>(checkpoint_tokens, engine.options().ubatch_tokens)};
}

Result<ContextId> ImportRun::Run(uint64_t checkpoint_tokens, const StoreOptions& store_options) {
  text_ = store_options.text_layout;
  for (;;) {
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextId> id,
                            RunOn(checkpoint_tokens, store_options));
    if (id) return *id;
    ATTNDB_RETURN_IF_ERROR(LetOthersPass());
  }
}

Result<std::optional<ContextId>> ImportRun::RunOn(uint64_t checkpoint_tokens,
                                                  const StoreOptions& store_options) {
  const DB& db = **store_.db;
  // An import has all tokens of its text, even if a chat with the same beginning has lost some.
  ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                          db.CreateSession(engine_->spec(), tokens_, {.truncated = false}));
  Session& session = start.session;
  ATTNDB_RETURN_IF_ERROR(FindBase(session));
  const uint64_t num_reused = session.num_reused();
  if (!std::exchange(has_begun_, true)) {
    num_reused_ = num_reused;
    const std::string share = FormatCount(num_reused_) + " of " + FormatCount(tokens_.size());
    if (num_reused_ > 0) {
      env_->Note(resumes_ ? "resumed at " + share + " tokens, where it was interrupted"
                          : "the first " + share + " tokens are stored already");
    }
  } else {
    env_->Note("the import goes on at " + FormatCount(num_reused) + " of " +
               FormatCount(tokens_.size()) + " tokens" +
               (num_reused < num_stored_ ? ": what it had stored is gone" : ""));
  }
  start_seconds_ = MonotonicSeconds();
  const Status prefill = Prefill(&session, start.rest, checkpoint_tokens);
  seconds_ += MonotonicSeconds() - start_seconds_;
  num_run_ += session.num_tokens() - num_reused;
  if (std::exchange(lets_pass_, false)) {
    num_stored_ = session.num_tokens();
    return std::optional<ContextId>();
  }
  if (prefill.code() == StatusCode::kCancelled) return StoreInterrupted(&session);
  ATTNDB_RETURN_IF_ERROR(prefill);
  StoreOptions options = store_options;
  options.drop_base = drop_base_;
  ATTNDB_ASSIGN_OR_RETURN(const ContextId id, db.Store(session, tokens_, options));
  return std::optional(id);
}

Status ImportRun::FindBase(const Session& session) {
  drop_base_ = false;
  if (session.context_id() == ContextId::kNone) return Status();
  const DB& db = **store_.db;
  const std::string id = IdName(session.context_id());
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> base, db.Tokens(id));
  drop_base_ = llama::CommonPrefix(base, tokens_) == base.size();
  ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(id));
  resumes_ = drop_base_ && info.name.empty();
  return Status();
}

Status ImportRun::Prefill(Session* session, std::span<const TokenId> rest,
                          uint64_t checkpoint_tokens) {
  const uint64_t num_done = tokens_.size() - rest.size();
  ProgressLine progress({.label = "prefill",
                         .unit = "tokens",
                         .done_at_start = num_done,
                         .enabled = env_->show_progress()});
  progress.Update(num_done, tokens_.size());
  last_checkpoint_ = 0;
  times_ = PrefillTimes();
  times_.Add(num_done, MonotonicSeconds());
  llama::PrefillOptions options;
  options.progress = [&](const llama::PrefillProgress& p) {
    times_.Add(num_done + p.tokens_done, MonotonicSeconds());
    progress.Update(num_done + p.tokens_done, tokens_.size());
    // All read: it is as quick to finish as to keep a checkpoint of the whole.
    return !Interrupted() || p.tokens_done == rest.size();
  };
  options.checkpoint = [&](uint64_t tokens_done) {
    return Checkpoint(session, tokens_done, rest.size(), checkpoint_tokens);
  };
  return engine_->Prefill(*session, rest, options);
}

Status ImportRun::Checkpoint(Session* session, uint64_t tokens_done, uint64_t num_rest,
                             uint64_t checkpoint_tokens) {
  if (tokens_done == num_rest) return Status();
  const bool lets_pass =
      MonotonicSeconds() - start_seconds_ >= kLeastSeconds && SomebodyWaits(env_->db_path());
  if (tokens_done - last_checkpoint_ < checkpoint_tokens && !lets_pass) return Status();
  last_checkpoint_ = tokens_done;
  ATTNDB_RETURN_IF_ERROR(StoreCheckpoint(session));
  if (!lets_pass) return Status();
  lets_pass_ = true;
  return Status::Cancelled("another process waits for the store");
}

Status ImportRun::StoreCheckpoint(Session* session) {
  StoreOptions options;
  options.drop_base = drop_base_;
  options.text_layout = llama::FirstOf(text_, session->num_tokens());
  ATTNDB_RETURN_IF_ERROR(
      (*store_.db)->Store(*session, tokens_.first(session->num_tokens()), options).status());
  drop_base_ = true;
  return Status();
}

Status ImportRun::StoreInterrupted(Session* session) {
  num_stored_ = session->num_tokens();
  if (num_stored_ > session->num_reused()) ATTNDB_RETURN_IF_ERROR(StoreCheckpoint(session));
  return Interruption();
}

Status ImportRun::LetOthersPass() {
  uint64_t num_noted = store_.num_noted == nullptr ? 0 : std::exchange(*store_.num_noted, 0);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> evicted,
                          NoteEvicted(env_, **store_.db, &num_noted));
  evicted_.insert(evicted_.end(), evicted.begin(), evicted.end());
  LetGo();
  if (Interrupted()) return Interruption();
  Result<DB> db = store_.open();
  if (db.status().code() == StatusCode::kCancelled) return Interruption();
  ATTNDB_RETURN_IF_ERROR(db.status());
  *store_.db = *std::move(db);
  return store_.check ? store_.check(**store_.db) : Status();
}

void ImportRun::LetGo() {
  env_->Note("another process waits for the store: it goes first");
  store_.db->reset();
  const double deadline = MonotonicSeconds() + kMostPauseSeconds;
  while (!Interrupted() && MonotonicSeconds() < deadline && SomebodyWaits(env_->db_path())) {
    usleep(kLookMicros);
  }
}

Status ImportRun::Interruption() const {
  return Status::Cancelled("interrupted at " + FormatCount(num_stored_) + " of " +
                           FormatCount(tokens_.size()) + " tokens");
}

}  // namespace attndb::cli
