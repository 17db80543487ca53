// `import` of a text: through the model once, with checkpoints.
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/common/context_text.h"
#include "cli/common/document_import.h"
#include "cli/common/engine_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/prompt_layout.h"
#include "cli/common/text_input.h"
#include "cli/common/trained_length.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

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
  uint64_t num_stored() const { return num_stored_; }  // Tokens that an interrupted run has stored.
  double seconds() const { return seconds_; }

 private:
  // An unnamed context that this document continues as a whole is an earlier checkpoint of it, and
  // goes when there is a later one. One that only shares its beginning belongs to another import.
  Status FindBase(const Session& session) {
    if (session.context_id() == ContextId::kNone) return Status();
    const std::string id = IdName(session.context_id());
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
      // All read: it is as quick to finish as to keep a checkpoint of the whole.
      return !Interrupted() || p.tokens_done == rest.size();
    };
    uint64_t last_checkpoint = 0;
    options.checkpoint = [&](uint64_t tokens_done) {
      if (tokens_done - last_checkpoint < checkpoint_tokens || tokens_done == rest.size()) {
        return Status();
      }
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

class ModelDocumentImport : public DocumentImport {
 public:
  void AddFlags(Flags* flags) override {
    flags->Group("Text");
    flags->Add({"--system", "TEXT", "System message in front of the document"}, &system_);
    flags->Add({"--raw", "", "Store the text alone, without the model's chat template"}, &raw_);
    flags->Add({"--kv-dtype", "TYPE", "Stored K and V: f16 (default), bf16 or f32"}, &kv_dtype_);
    flags->Add(
        {"--checkpoint", "N", "Tokens after which a killed import can resume (default: 4096)"},
        &checkpoint_tokens_, uint64_t{1}, uint64_t{1'000'000'000});
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env, const std::string& file, ImportTarget* target) override {
    ATTNDB_RETURN_IF_ERROR(target->Resolve(file));
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
    if (text.empty()) return Status::InvalidArgument("'" + file + "' is empty");
    const InterruptScope interrupt;
    // The model and the text first: what is refused must not leave a store behind.
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.Open(env, kv_dtype_));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                            DocumentTokens(engine, raw_, system_, text));
    ATTNDB_RETURN_IF_ERROR(CheckTrainedLength(env, engine.info(), engine.options().rope_scaling,
                                              file == "-" ? "the text" : "'" + file + "'",
                                              tokens.size()));
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(true, target->db_options()));
    ATTNDB_ASSIGN_OR_RETURN(
        const std::optional<ContextInfo> imported,
        ImportTarget::FindImported(db, engine.spec(), tokens, /*first_position=*/0));
    if (imported && imported->name == target->name()) {
      return target->ReportNothingToDo(env, db, *imported);
    }
    ATTNDB_RETURN_IF_ERROR(target->CheckNameIsFree(db));
    ImportRun run(env, &db, &engine, tokens);
    const Result<ContextId> id = run.Run(checkpoint_tokens_, target->options());
    if (id.ok()) {
      target->MergePieces(env, db);
      target->FinishPlanes(env, db);
      return Report(env, db, target->name(), run);
    }
    if (id.status().code() != StatusCode::kCancelled) return id.status();
    return env->WithAdvice(
        id.status(), run.num_stored() > 0 ? "the same command goes on there" : "nothing is stored");
  }

 private:
  static Result<ExitCode> Report(Environment* env, const DB& db, const std::string& name,
                                 const ImportRun& run) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(name));
    const uint64_t num_run = info.num_tokens - run.num_reused();
    const double rate = run.seconds() > 0 ? static_cast<double>(num_run) / run.seconds() : 0;
    Json json = ImportTarget::Summary(info);
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

  std::string system_;
  bool raw_ = false;
  DType kv_dtype_ = DType::kFloat16;
  uint64_t checkpoint_tokens_ = 4096;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<DocumentImport> MakeDocumentImport() {
  return std::make_unique<ModelDocumentImport>();
}

}  // namespace attndb::cli
