#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/prompt_layout.h"
#include "cli/common/text_input.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

struct ImportFlags {
  std::string file;
  std::string name;
  bool replace = false;
  std::string ttl = "never";
  bool pin = false;
  std::string system;
  bool raw = false;
  DType kv_dtype = DType::kFloat16;
  uint64_t checkpoint_tokens = 4096;
};

// The context that holds exactly `tokens` of this model, if there is one.
Result<std::optional<ContextInfo>> FindImported(const DB& db, const ModelSpec& spec,
                                                std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
  std::optional<ContextInfo> unnamed;
  for (const ContextInfo& context : contexts) {
    if (context.num_tokens != tokens.size() || context.damaged || context.first_position != 0 ||
        context.kv_dtype != spec.kv_dtype || context.fingerprint != spec.fingerprint) {
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, db.Tokens(NameOf(context)));
    if (!std::equal(ids.begin(), ids.end(), tokens.begin(), tokens.end())) continue;
    if (!context.name.empty()) return std::optional(context);
    unnamed = context;
  }
  return unnamed;
}

// One run of a document through the model, from where the store has it to its end.
class ImportRun {
 public:
  ImportRun(Environment* env, const DB* db, LlamaEngine* engine, std::span<const TokenId> tokens)
      : env_(env), db_(db), engine_(engine), tokens_(tokens) {}

  // Errors: kCancelled after a signal: what is done is stored. Others as Prefill and Store.
  Result<ContextId> Run(uint64_t checkpoint_tokens, const StoreOptions& store_options) {
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db_->CreateSession(engine_->spec(), tokens_));
    Session& session = start.session;
    num_reused_ = session.num_reused();
    ATTNDB_RETURN_IF_ERROR(FindBase(session));
    if (num_reused_ > 0) {
      env_->Note("resumed at " + FormatCount(num_reused_) + " of " + FormatCount(tokens_.size()) +
                 " tokens");
    }
    const double start_seconds = MonotonicSeconds();
    const Status prefill = Prefill(&session, start.rest, checkpoint_tokens);
    seconds_ = MonotonicSeconds() - start_seconds;
    if (prefill.code() == StatusCode::kCancelled) return StoreInterrupted(&session);
    ATTNDB_RETURN_IF_ERROR(prefill);
    StoreOptions options = store_options;
    options.drop_base = drop_base_;
    return db_->Store(session, tokens_, options);
  }

  uint64_t num_reused() const { return num_reused_; }
  uint64_t num_stored() const { return num_stored_; }  // Of an interrupted run.
  double seconds() const { return seconds_; }

 private:
  // An unnamed context that this document continues as a whole is an earlier checkpoint of it, and
  // goes when there is a later one. One that only shares its beginning belongs to another import.
  Status FindBase(const Session& session) {
    if (session.context_id() == ContextId::kNone) return Status();
    const std::string id = "#" + std::to_string(static_cast<int64_t>(session.context_id()));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> base, db_->Tokens(id));
    drop_base_ = CommonPrefix(base, tokens_) == base.size();
    return Status();
  }

  Status Prefill(Session* session, std::span<const TokenId> rest, uint64_t checkpoint_tokens) {
    ProgressLine progress({.label = "prefill",
                           .unit = "tokens",
                           .done_at_start = num_reused_,
                           .enabled = env_->show_progress()});
    progress.Update(num_reused_, tokens_.size());
    llama::PrefillOptions options;
    options.progress = [&](const llama::PrefillProgress& p) {
      progress.Update(num_reused_ + p.tokens_done, tokens_.size());
      return !Interrupted();
    };
    uint64_t last_checkpoint = 0;
    options.checkpoint = [&](uint64_t tokens_done) {
      if (tokens_done - last_checkpoint < checkpoint_tokens) return Status();
      last_checkpoint = tokens_done;
      return StoreCheckpoint(session).status();
    };
    return engine_->Prefill(*session, rest, options);
  }

  Result<ContextId> StoreCheckpoint(Session* session) {
    StoreOptions options;
    options.drop_base = drop_base_;
    Result<ContextId> id = db_->Store(*session, tokens_.first(session->num_tokens()), options);
    if (id.ok()) drop_base_ = true;
    return id;
  }

  Result<ContextId> StoreInterrupted(Session* session) {
    num_stored_ = session->num_tokens();
    if (num_stored_ > session->num_reused()) {
      ATTNDB_RETURN_IF_ERROR(StoreCheckpoint(session).status());
    }
    return Status::Cancelled("interrupted at " + FormatCount(num_stored_) + " of " +
                             FormatCount(tokens_.size()) + " tokens");
  }

  Environment* const env_;
  const DB* const db_;
  LlamaEngine* const engine_;
  const std::span<const TokenId> tokens_;
  uint64_t num_reused_ = 0;
  uint64_t num_stored_ = 0;
  double seconds_ = 0;
  bool drop_base_ = false;
};

class ImportCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"file", "FILE", "A text file, or - for stdin", /*required=*/true}, &flags_.file);
    flags->Add({"-n,--name", "NAME", "Name of the context (default: the file's)"}, &flags_.name);
    flags->Add({"--replace", "", "Take the name from the context that has it"}, &flags_.replace);
    flags->Add({"--ttl", "TIME", "Expire this long after the last use: 90s, 1h, 7d, never"},
               &flags_.ttl);
    flags->Add({"--pin", "", "Never evict, never expire"}, &flags_.pin);
    flags->Add({"--system", "TEXT", "System message in front of the document"}, &flags_.system);
    flags->Add({"--raw", "", "Store the text alone, without the model's chat template"},
               &flags_.raw);
    flags->Add({"--kv-dtype", "TYPE", "Stored K and V: f16 (default), bf16 or f32"},
               &flags_.kv_dtype);
    flags->Add(
        {"--checkpoint", "N", "Tokens after which a killed import can resume (default: 4096)"},
        &flags_.checkpoint_tokens, uint64_t{1}, uint64_t{1'000'000'000});
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (flags_.name.empty()) flags_.name = NameFromPath(flags_.file);
    if (flags_.name.empty()) {
      return Status::InvalidArgument("text from stdin has no name: give it one with --name");
    }
    StoreOptions options;
    options.name = flags_.name;
    options.replace = flags_.replace;
    options.pin = flags_.pin;
    ATTNDB_ASSIGN_OR_RETURN(options.ttl, ParseTtl(flags_.ttl));
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, ReadText(flags_.file));
    if (text.empty()) return Status::InvalidArgument("'" + flags_.file + "' is empty");
    const InterruptScope interrupt;
    // The model first: what is no model must not leave a store behind.
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.Open(env, flags_.kv_dtype));
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(true));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                            DocumentTokens(engine, flags_.raw, flags_.system, text));
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextInfo> imported,
                            FindImported(db, engine.spec(), tokens));
    if (imported && imported->name == flags_.name) return ReportNothingToDo(env, db, *imported);
    ATTNDB_RETURN_IF_ERROR(CheckNameIsFree(db));
    ImportRun run(env, &db, &engine, tokens);
    const Result<ContextId> id = run.Run(flags_.checkpoint_tokens, options);
    if (id.ok()) return Report(env, db, run);
    if (id.status().code() != StatusCode::kCancelled) return id.status();
    return env->WithAdvice(
        id.status(), run.num_stored() > 0 ? "the same command goes on there" : "nothing is stored");
  }

 private:
  // Found out before the prefill, which may take an hour.
  Status CheckNameIsFree(const DB& db) const {
    if (flags_.replace) return Status();
    const Result<ContextInfo> holder = db.Describe(flags_.name);
    if (holder.ok()) {
      return Status::AlreadyExists("the name '" + flags_.name + "' belongs to another context of " +
                                   FormatCount(holder->num_tokens) + " tokens");
    }
    return holder.status().code() == StatusCode::kNotFound ? Status() : holder.status();
  }

  static Json Summary(const ContextInfo& info) {
    return {{"context", info.name},
            {"id", static_cast<int64_t>(info.id)},
            {"num_tokens", info.num_tokens},
            {"file_bytes", info.file_bytes}};
  }

  // The document is there; what was asked about its life may be new.
  Result<ExitCode> ReportNothingToDo(Environment* env, const DB& db, const ContextInfo& info) {
    if (flags_.pin && !info.pinned) ATTNDB_RETURN_IF_ERROR(db.Pin(info.name));
    if (flags_.ttl != "never") {
      ATTNDB_ASSIGN_OR_RETURN(const auto ttl, ParseTtl(flags_.ttl));
      ATTNDB_RETURN_IF_ERROR(db.SetTtl(info.name, ttl));
    }
    Json json = Summary(info);
    json["already_imported"] = true;
    env->PrintJson(json);
    env->Print("already imported as '" + info.name + "': " + FormatCount(info.num_tokens) +
               " tokens\n");
    return ExitCode::kOk;
  }

  Result<ExitCode> Report(Environment* env, const DB& db, const ImportRun& run) const {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(flags_.name));
    const uint64_t num_run = info.num_tokens - run.num_reused();
    const double rate = run.seconds() > 0 ? static_cast<double>(num_run) / run.seconds() : 0;
    Json json = Summary(info);
    json["already_imported"] = false;
    json["reused_tokens"] = run.num_reused();
    json["new_tokens"] = num_run;
    json["seconds"] = run.seconds();
    json["tokens_per_second"] = rate;
    env->PrintJson(json);
    env->Print("imported '" + info.name + "': " + FormatCount(info.num_tokens) + " tokens, " +
               FormatBytes(info.file_bytes) + " on disk; ran " + FormatCount(num_run) + " in " +
               FormatSeconds(run.seconds()) + " (" + FormatFixed(rate, 0) + " tokens/s)\n");
    return ExitCode::kOk;
  }

  ImportFlags flags_;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeImport() { return std::make_unique<ImportCommand>(); }

}  // namespace attndb::cli
