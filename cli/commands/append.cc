#include <optional>
#include <string>
#include <vector>

#include "attndb/context_name.h"
#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"
#include "cli/common/evicted.h"
#include "cli/common/import_run.h"
#include "cli/common/import_target.h"
#include "cli/common/interrupt.h"
#include "cli/common/text_input.h"
#include "cli/common/text_kind.h"
#include "cli/common/trained_length.h"
#include "engines/llama/stored_text.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

class AppendCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add({"file", "FILE", "A text file, or - for stdin", /*required=*/true}, &file_);
    flags->Add(
        {"--checkpoint", "N", "Tokens after which a killed append can resume (default: 4096)"},
        &checkpoint_tokens_, uint64_t{1}, uint64_t{1'000'000'000});
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(
        const std::string text,
        ReadText(file_, "attndb append " + std::string(context_.starts_with('-') ? "-- " : "") +
                            ShellWord(context_) + " -"));
    if (text.empty()) return Status::InvalidArgument("'" + file_ + "' is empty");
    if (!env->server().empty()) {
      return ImportThroughServer(env, {.name = context_, .text = text, .append = true});
    }
    ATTNDB_ASSIGN_OR_RETURN(DB opened, env->OpenForWriting(false, Options()));
    std::optional<DB> db(std::move(opened));
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db->Describe(context_));
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.OpenFor(env, info));
    ATTNDB_ASSIGN_OR_RETURN(const llama::PromptText all, AllText(env, *db, engine, info, text));
    StoreOptions options;
    options.name = info.name;
    options.replace = !info.name.empty();
    TakeLife(info, &options);
    options.title = info.title;
    ATTNDB_ASSIGN_OR_RETURN(options.note, db->Note(IdName(info.id)));
    options.text_layout = all.text;
    ImportRun run(env,
                  {.db = &db,
                   .open = [&] { return env->ReopenForWriting(Options()); },
                   .check = [&](const DB& left) { return Renew(left, info, &options); }},
                  &engine, all.tokens);
    const Result<ContextId> id = run.Run(checkpoint_tokens_, options);
    if (id.status().code() == StatusCode::kCancelled) {
      return env->WithAdvice(id.status(), "the same command goes on there");
    }
    ATTNDB_RETURN_IF_ERROR(id.status());
    ATTNDB_RETURN_IF_ERROR(DropGrown(*db, info, *id));
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo grown, db->Describe(IdName(*id)));
    uint64_t num_noted = 0;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> evicted,
                            NoteEvicted(env, *db, &num_noted));
    ImportTarget::PrintImported(env, grown, run.num_reused(), run.num_run(), run.seconds(),
                                evicted);
    return ExitCode::kOk;
  }

 private:
  static DBOptions Options() { return {}; }

  static void TakeLife(const ContextInfo& context, StoreOptions* options) {
    options->pin = context.pinned;
    options->ttl.reset();
    if (context.ttl_seconds) options->ttl = std::chrono::seconds(*context.ttl_seconds);
  }

  // Another process had the store meanwhile: the context must be unchanged.
  static Status Renew(const DB& db, const ContextInfo& before, StoreOptions* options) {
    const Result<ContextInfo> now = db.Describe(IdName(before.id));
    const bool is_gone = now.status().code() == StatusCode::kNotFound;
    if (!is_gone) ATTNDB_RETURN_IF_ERROR(now.status());
    if (is_gone || now->name != before.name || now->num_tokens != before.num_tokens) {
      return Status::FailedPrecondition("'" + NameOf(before) +
                                        "' was changed by another process, which went first: "
                                        "append the text again");
    }
    TakeLife(*now, options);
    return Status();
  }

  // The context's text with the new text behind it, checked for length and room.
  Result<llama::PromptText> AllText(Environment* env, const DB& db, const LlamaEngine& engine,
                                    const ContextInfo& info, const std::string& text) const {
    ATTNDB_ASSIGN_OR_RETURN(llama::PromptText all, AppendedText(engine, db, context_, text,
                                                                TextLimits(env, engine.info())));
    ATTNDB_RETURN_IF_ERROR(CheckTrainedLength(env, engine.info(), engine.options().rope_scaling,
                                              "'" + NameOf(info) + "'", all.tokens.size()));
    const RoomOptions room = ImportRun::RoomOf(engine, checkpoint_tokens_);
    ATTNDB_RETURN_IF_ERROR(db.CheckRoom(engine.spec(), all.tokens, room).status());
    return all;
  }

  // A context without a name, which no Store takes the place of: where its last tokens became
  // others, the grown one does not begin with all of it.
  static Status DropGrown(const DB& db, const ContextInfo& before, ContextId grown) {
    if (!before.name.empty() || before.pinned || before.id == grown) return Status();
    const Status status = db.Drop(IdName(before.id));
    return status.code() == StatusCode::kNotFound ? Status() : status;
  }

  std::string context_;
  std::string file_;
  uint64_t checkpoint_tokens_ = 4096;
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<Command> MakeAppend() { return std::make_unique<AppendCommand>(); }

}  // namespace attndb::cli
