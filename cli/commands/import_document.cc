// `import` of texts: each through the model once, with checkpoints.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client/server_commands.h"
#include "cli/common/document_import.h"
#include "cli/common/document_parts.h"
#include "cli/common/dry_run.h"
#include "cli/common/engine_flags.h"
#include "cli/common/evicted.h"
#include "cli/common/import_run.h"
#include "cli/common/import_sources.h"
#include "cli/common/interrupt.h"
#include "cli/common/prefill_cost.h"
#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "cli/common/text_kind.h"
#include "cli/common/text_parts.h"
#include "cli/common/trained_length.h"
#include "cli/common/units.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/stored_text.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

Json ToJson(const std::vector<SkippedFile>& skipped) {
  Json list = Json::array();
  for (const SkippedFile& file : skipped) {
    list.push_back(JsonObject({{"file", file.path}, {"reason", file.reason}}));
  }
  return list;
}

// The first of them by name.
void NoteSkippedFiles(Environment* env, const std::vector<SkippedFile>& skipped) {
  constexpr size_t kMostLines = 20;
  if (skipped.empty()) return;
  std::string text = "left out what is no text: " + Counted(skipped.size(), "file");
  for (size_t i = 0; i < std::min(skipped.size(), kMostLines); ++i) {
    text += "\n  " + skipped[i].path + ": " + skipped[i].reason;
  }
  if (skipped.size() > kMostLines) {
    text += "\n  and " + FormatCount(skipped.size() - kMostLines) + " more: --json has all";
  }
  env->Note(text);
}

class ModelDocumentImport : public DocumentImport {
 public:
  void AddFlags(Flags* flags) override {
    flags->Group("Text");
    flags->Add({"--system", "TEXT", "System message in front of the document"}, &system_);
    flags->Add({"--raw", "", "Store the text alone, without the model's chat template"}, &raw_);
    flags->Add({"--dry-run", "", "Say what it would take and store nothing: tokens, bytes, time"},
               &dry_run_);
    flags->Add({"--split", "",
                "Import a text that is longer than the model in parts: NAME.1, NAME.2, ..."},
               &split_);
    flags->Add({"--part-tokens", "N",
                "With --split: tokens of a part at most (default: 7/8 of the model's length)"},
               &part_tokens_, uint64_t{64}, uint64_t{1'000'000'000});
    flags->Add({"--kv-dtype", "TYPE", "Stored K and V: f16 (default), bf16 or f32"}, &kv_dtype_);
    flags->Add({"--unrotated-keys", "",
                "Store keys as they were before RoPE and turn them in each call: for comparison"},
               &unrotated_keys_);
    flags->Add(
        {"--checkpoint", "N", "Tokens after which a killed import can resume (default: 4096)"},
        &checkpoint_tokens_, uint64_t{1}, uint64_t{1'000'000'000});
    model_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env, const std::vector<std::string>& arguments,
                       const ImportTarget& target) override {
    const InterruptScope interrupt;
    if (part_tokens_ > 0 && !split_) {
      return Status::InvalidArgument("--part-tokens goes with --split");
    }
    ATTNDB_ASSIGN_OR_RETURN(const ImportSources sources, FindImportSources(arguments));
    NoteSkippedFiles(env, sources.skipped);
    if (sources.files.empty()) return NothingToImport(env, sources);
    if (!sources.is_list && !split_) return ImportOne(env, sources.files.front(), target);
    if (sources.is_list && !target.name().empty()) {
      return Status::InvalidArgument("--name names one context, found " +
                                     FormatCount(sources.files.size()) + " files");
    }
    // It fails for each of them, if it fails.
    if (env->server().empty()) ATTNDB_RETURN_IF_ERROR(OpenModel(env));
    return ImportAll(env, sources, target);
  }

 private:
  // Counts the files of a list by their result.
  struct Tally {
    size_t num_done = 0;
    size_t num_failed = 0;
    bool is_interrupted = false;  // The current file counts as one that is left.
    ExitCode code = ExitCode::kOk;
  };

  static Result<ExitCode> NothingToImport(Environment* env, const ImportSources& sources) {
    env->PrintJson({{"imports", Json::array()}, {"skipped", ToJson(sources.skipped)}});
    env->Warn("nothing to import: " +
              (sources.skipped.size() == 1
                   ? std::string("the one file is no text")
                   : "none of " + FormatCount(sources.skipped.size()) + " files is a text"));
    return ExitCode::kNoText;
  }

  // Each of them, whatever becomes of the others.
  Result<ExitCode> ImportAll(Environment* env, const ImportSources& sources,
                             const ImportTarget& target) {
    const double start_seconds = MonotonicSeconds();
    env->BeginList();
    Tally tally;
    for (const ImportSource& file : sources.files) {
      tally.is_interrupted = Interrupted();
      if (tally.is_interrupted) break;
      Count(env, file, ImportOne(env, file, target), &tally);
      if (tally.is_interrupted || has_no_store_) break;
    }
    if (tally.is_interrupted) tally.code = ExitCode::kInterrupted;
    PrintTally(env, sources, tally, MonotonicSeconds() - start_seconds);
    return tally.code;
  }

  static void Count(Environment* env, const ImportSource& file, const Result<ExitCode>& done,
                    Tally* tally) {
    if (done.ok()) {
      ++tally->num_done;
      return;
    }
    const ExitCode failed = env->NoteFailure(file.path, done.status());
    tally->is_interrupted = done.status().code() == StatusCode::kCancelled;
    if (tally->is_interrupted) return;
    ++tally->num_failed;
    if (tally->code == ExitCode::kOk) tally->code = failed;
  }

  void PrintTally(Environment* env, const ImportSources& sources, const Tally& tally,
                  double seconds) const {
    const size_t num_left = sources.files.size() - tally.num_done - tally.num_failed;
    Json rest = JsonObject({{"num_done", tally.num_done},
                            {"num_failed", tally.num_failed},
                            {"num_left", num_left},
                            {"seconds", seconds}});
    if (!sources.skipped.empty()) rest["skipped"] = ToJson(sources.skipped);
    env->EndList("imports", rest);
    env->Print((dry_run_ ? "looked at " : "imported ") + FormatCount(tally.num_done) + " of " +
               Counted(sources.files.size(), "file") + " in " + FormatSeconds(seconds) +
               (num_left > 0 ? "; left: " + FormatCount(num_left) : "") + "\n");
  }

  Result<ExitCode> ImportOne(Environment* env, const ImportSource& file,
                             const ImportTarget& common) {
    ImportTarget target = common;
    ATTNDB_RETURN_IF_ERROR(target.Resolve(file.name));
    ATTNDB_ASSIGN_OR_RETURN(
        const std::string text,
        ReadText(file.path, "attndb import - " + ShellOption("--name", target.name())));
    if (text.empty()) return Status::InvalidArgument("'" + file.path + "' is empty");
    if (!env->server().empty()) {
      const StoreOptions& options = target.options();
      return ImportThroughServer(env, {.name = options.name,
                                       .text = text,
                                       .system = system_,
                                       .raw = raw_,
                                       .replace = options.replace,
                                       .pin = options.pin,
                                       .ttl = options.ttl,
                                       .dry_run = dry_run_});
    }
    // The model and the text come first: a refused import must not leave a store behind.
    ATTNDB_RETURN_IF_ERROR(OpenModel(env));
    const std::string what = file.path == "-" ? "the text" : "'" + file.path + "'";
    ATTNDB_ASSIGN_OR_RETURN(const llama::PromptText document, DocumentOf(env, target, text));
    const uint64_t num_tokens = document.tokens.size();
    if (split_ && num_tokens > MostOfWhole(engine_->info(), part_tokens_)) {
      return ImportParts(env, target, what, text);
    }
    ATTNDB_RETURN_IF_ERROR(CheckTrainedLength(env, engine_->info(), engine_->options().rope_scaling,
                                              what, num_tokens, /*can_split=*/!split_));
    return ImportDocument(env, target, document);
  }

  Result<ExitCode> ImportDocument(Environment* env, const ImportTarget& target,
                                  const llama::PromptText& document) {
    if (dry_run_) return DryRun(env, &*engine_, document.tokens, target, Room(), &meter_);
    ATTNDB_RETURN_IF_ERROR(OpenStore(env, target));
    return Store(env, target, document);
  }

  Result<ExitCode> ImportParts(Environment* env, const ImportTarget& target,
                               const std::string& what, const std::string& text) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<DocumentPart> parts,
                            PartsOfDocument(env, target, what, text));
    ATTNDB_RETURN_IF_ERROR(CheckAllParts(env, target, parts));
    for (size_t i = 0; i < parts.size(); ++i) {
      const Result<ExitCode> done = ImportDocument(env, parts[i].target, parts[i].document);
      if (!done.ok()) return done.status().WithContext(PartText(i, parts.size()));
    }
    env->Note(what + " is in " + FormatCount(parts.size()) + " parts: '" + target.name() +
              ".1' to '" + target.name() + "." + std::to_string(parts.size()) + "'");
    if (dry_run_) return ExitCode::kOk;
    ATTNDB_RETURN_IF_ERROR(NoteOtherParts(env, *db_, target.name(), parts.size()));
    return ExitCode::kOk;
  }

  Result<std::vector<DocumentPart>> PartsOfDocument(Environment* env, const ImportTarget& target,
                                                    const std::string& what,
                                                    const std::string& text) const {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string_view> pieces, PartsOfText(what, text));
    std::vector<DocumentPart> parts;
    for (const std::string_view piece : pieces) {
      const std::string name = target.name() + "." + std::to_string(parts.size() + 1);
      ATTNDB_ASSIGN_OR_RETURN(ImportTarget part, target.Named(name));
      ATTNDB_ASSIGN_OR_RETURN(llama::PromptText document, DocumentOf(env, part, piece));
      parts.push_back({std::move(part), std::move(document)});
    }
    return parts;
  }

  Status CheckAllParts(Environment* env, const ImportTarget& target,
                       std::span<const DocumentPart> parts) {
    if (!dry_run_) {
      ATTNDB_RETURN_IF_ERROR(OpenStore(env, target));
      return CheckParts(*db_, engine_->spec(), parts, Room());
    }
    ATTNDB_ASSIGN_OR_RETURN(const StoreToLookAt store,
                            StoreToLookAt::Open(env, target.db_options()));
    return CheckParts(store.db(), engine_->spec(), parts, Room());
  }

  Result<std::vector<std::string_view>> PartsOfText(const std::string& what,
                                                    const std::string& text) const {
    // The template and the system message are in each of them. A few tokens more, since ids may
    // change where the template and the text meet.
    constexpr uint64_t kSlack = 8;
    ATTNDB_ASSIGN_OR_RETURN(const llama::PromptText around,
                            DocumentText(*engine_, raw_, system_, "", {}));
    const uint64_t num_around = around.tokens.size() + kSlack;
    const uint64_t most = MostOfPart(engine_->info(), part_tokens_);
    if (num_around >= most) {
      return Status::InvalidArgument("parts of " + Counted(most, "token") + " have no room for " +
                                     what + ": the template takes " + FormatCount(num_around));
    }
    return PartsOf(text, most - num_around, [this](std::string_view piece) -> Result<uint64_t> {
      if (Interrupted()) return Status::Cancelled("interrupted while it was split");
      ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                              engine_->Tokenize(piece, false, false));
      return tokens.size();
    });
  }

  Result<ExitCode> Store(Environment* env, const ImportTarget& target,
                         const llama::PromptText& document) {
    const std::vector<TokenId>& tokens = document.tokens;
    ATTNDB_ASSIGN_OR_RETURN(
        const std::optional<ContextInfo> imported,
        ImportTarget::FindImported(*db_, engine_->spec(), tokens, /*first_position=*/0));
    if (imported && imported->name == target.name()) {
      return target.ReportNothingToDo(env, *db_, *imported);
    }
    ATTNDB_RETURN_IF_ERROR(target.CheckNameIsFree(*db_, tokens));
    // A text that will not fit is not run: that may take hours.
    ATTNDB_RETURN_IF_ERROR(db_->CheckRoom(engine_->spec(), tokens, Room()).status());
    ImportRun run(env,
                  {.db = &db_,
                   .open = [&] { return env->ReopenForWriting(target.db_options()); },
                   .check = [&](const DB& db) { return target.CheckNameIsFree(db, tokens); },
                   .num_noted = &num_noted_},
                  &*engine_, tokens);
    StoreOptions options = target.options();
    options.text_layout = document.text;
    const Result<ContextId> id = run.Run(checkpoint_tokens_, options);
    KeepPrefillCost(*engine_, run.times());
    if (id.ok()) {
      target.MergePieces(env, *db_);
      target.FinishPlanes(env, *db_);
      return Report(env, target.name(), run);
    }
    if (id.status().code() == StatusCode::kAlreadyExists) {
      // If another import came first, it may have had the same text.
      ATTNDB_ASSIGN_OR_RETURN(
          const std::optional<ContextInfo> theirs,
          ImportTarget::FindImported(*db_, engine_->spec(), tokens, /*first_position=*/0));
      if (theirs && theirs->name == target.name()) {
        return target.ReportNothingToDo(env, *db_, *theirs);
      }
    }
    if (id.status().code() != StatusCode::kCancelled) return id.status();
    return env->WithAdvice(
        id.status(), run.num_stored() > 0 ? "the same command goes on there" : "nothing is stored");
  }

  // The model and the store are opened once for all files.
  Status OpenModel(Environment* env) {
    if (engine_) return Status();
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.Open(env, kv_dtype_, unrotated_keys_));
    engine_.emplace(std::move(engine));
    return Status();
  }
  Status OpenStore(Environment* env, const ImportTarget& target) {
    if (db_) return Status();
    has_no_store_ = true;
    ATTNDB_ASSIGN_OR_RETURN(DB db, env->OpenForWriting(true, target.db_options()));
    has_no_store_ = false;
    db_.emplace(std::move(db));
    return Status();
  }

  Result<llama::PromptText> DocumentOf(Environment* env, const ImportTarget& target,
                                       std::string_view text) const {
    Result<llama::PromptText> document = TextFor(env, target, text);
    if (document.status().code() != StatusCode::kCancelled) return document;
    return env->WithAdvice(Status::Cancelled("interrupted while the text was read"),
                           "nothing is stored");
  }

  // A template that shows a date shows the date of the earlier import that it continues.
  Result<llama::PromptText> TextFor(Environment* env, const ImportTarget& target,
                                    std::string_view text) const {
    const llama::TokenizeLimits limits = TextLimits(env, engine_->info());
    if (raw_ || engine_->ChatTime() == 0) {
      return DocumentText(*engine_, raw_, system_, text, limits);
    }
    const llama::ImportedDocument document = {target.name(), raw_, system_, text};
    if (db_) return ImportedText(*engine_, *db_, document, limits);
    ATTNDB_ASSIGN_OR_RETURN(const StoreToLookAt store,
                            StoreToLookAt::Open(env, target.db_options()));
    return ImportedText(*engine_, store.db(), document, limits);
  }

  RoomOptions Room() const { return ImportRun::RoomOf(*engine_, checkpoint_tokens_); }

  Result<ExitCode> Report(Environment* env, const std::string& name, const ImportRun& run) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db_->Describe(name));
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> latest,
                            NoteEvicted(env, *db_, &num_noted_));
    std::vector<std::string> evicted = run.evicted();
    evicted.insert(evicted.end(), latest.begin(), latest.end());
    ImportTarget::PrintImported(env, info, run.num_reused(), run.num_run(), run.seconds(), evicted);
    return ExitCode::kOk;
  }

  std::string system_;
  bool raw_ = false;
  bool dry_run_ = false;
  bool split_ = false;
  uint64_t part_tokens_ = 0;  // 0: determined by the model's length.
  DType kv_dtype_ = DType::kFloat16;
  bool unrotated_keys_ = false;
  uint64_t checkpoint_tokens_ = 4096;
  ModelFlags model_;
  std::optional<LlamaEngine> engine_;
  PrefillMeter meter_;  // Used by dry runs.
  std::optional<DB> db_;
  bool has_no_store_ = false;  // It could not be opened: other files fail as well.
  uint64_t num_noted_ = 0;     // Evictions that were told.
};

}  // namespace

std::unique_ptr<DocumentImport> MakeDocumentImport() {
  return std::make_unique<ModelDocumentImport>();
}

}  // namespace attndb::cli
