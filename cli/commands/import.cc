#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attndb/fingerprint.h"
#include "attndb/kv_file.h"
#include "cli/commands/commands.h"
#include "cli/common/document_import.h"
#include "cli/common/evicted.h"
#include "cli/common/import_target.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/text_input.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class ImportCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add(
        {"files", "FILE", "Text files, folders of them, patterns as 'notes/*.md', or -, stdin"},
        &files_);
    flags->Add({"--safetensors", "FILE", "A KV file instead: what a model made elsewhere"},
               &kv_file_);
    target_.AddTo(flags);
    flags->Add({"--fingerprint", "TEXT", "Identity of the model, instead of the KV file's"},
               &fingerprint_);
    document_->AddFlags(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    if (files_.empty() == kv_file_.empty()) {
      return env->WithAdvice(
          Status::InvalidArgument(files_.empty() ? "nothing to import"
                                                 : "a text and a KV file exclude each other"),
          "name a text FILE, or --safetensors FILE");
    }
    if (kv_file_.empty() && !fingerprint_.empty()) {
      return Status::InvalidArgument("--fingerprint goes with --safetensors");
    }
    return kv_file_.empty() ? document_->Run(env, files_, target_) : ImportKv(env);
  }

 private:
  Result<ExitCode> ImportKv(Environment* env) {
    ATTNDB_RETURN_IF_ERROR(target_.Resolve(NameFromPath(kv_file_)));
    const double start_seconds = MonotonicSeconds();
    // The file comes first: a bad file must not leave a store behind.
    ATTNDB_ASSIGN_OR_RETURN(const KvFileReader file, KvFileReader::Open(kv_file_));
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(true, target_.db_options()));
    const KvFileContents& contents = file.contents();
    ModelSpec spec = contents.spec;
    if (!fingerprint_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(spec.fingerprint, ParseFingerprint(fingerprint_));
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<ContextInfo> imported,
                            ImportTarget::FindImported(db, spec, contents.tokens,
                                                       contents.first_position, contents.cuts));
    if (imported && imported->name == target_.name()) {
      return target_.ReportNothingToDo(env, db, *imported);
    }
    ATTNDB_RETURN_IF_ERROR(target_.CheckNameIsFree(db, contents.tokens));
    KvFileImportOptions options;
    options.store = target_.options();
    options.fingerprint = spec.fingerprint;
    ProgressLine progress({.label = "import", .unit = "bytes", .enabled = env->show_progress()});
    options.progress = ShowUntilInterrupted(&progress);
    const Result<ContextId> id = file.Import(db, options);
    progress.Clear();
    if (id.status().code() == StatusCode::kCancelled) {
      return env->WithAdvice(id.status(), "nothing is stored");
    }
    ATTNDB_RETURN_IF_ERROR(id.status());
    target_.FinishPlanes(env, db);
    return Report(env, db, MonotonicSeconds() - start_seconds);
  }

  Result<ExitCode> Report(Environment* env, const DB& db, double seconds) const {
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(target_.name()));
    Json json = ImportTarget::Summary(info);
    json["already_imported"] = false;
    json["seconds"] = seconds;
    uint64_t num_noted = 0;
    ATTNDB_ASSIGN_OR_RETURN(json["evicted"], NoteEvicted(env, db, &num_noted));
    env->PrintJson(json);
    env->Print("imported '" + info.name + "': " + Counted(info.num_tokens, "token") + ", " +
               FormatBytes(info.file_bytes) + " on disk, in " + FormatSeconds(seconds) + "\n");
    return ExitCode::kOk;
  }

  std::vector<std::string> files_;
  std::string kv_file_;
  std::string fingerprint_;
  ImportTarget target_;
  const std::unique_ptr<DocumentImport> document_ = MakeDocumentImport();
};

}  // namespace

std::unique_ptr<Command> MakeImport() { return std::make_unique<ImportCommand>(); }

}  // namespace attndb::cli
