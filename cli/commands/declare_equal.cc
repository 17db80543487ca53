#include <string>
#include <vector>

#include "attndb/fingerprint.h"
#include "cli/commands/commands.h"

namespace attndb::cli {
namespace {

class DeclareEqualCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"fingerprint_a", "FINGERPRINT", "As 'attndb describe' shows it: text, or hex:...",
                /*required=*/true},
               &a_);
    flags->Add({"fingerprint_b", "FINGERPRINT", "Of the other model", /*required=*/true}, &b_);
    flags->Add({"--undo", "", "Take it back: what was stored meanwhile stays"}, &undo_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::string a, ParseFingerprint(a_));
    ATTNDB_ASSIGN_OR_RETURN(const std::string b, ParseFingerprint(b_));
    if (a == b) return Status::InvalidArgument("expected two models, found one fingerprint twice");
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false));
    if (undo_) {
      ATTNDB_RETURN_IF_ERROR(db.RevokeEqual(a, b));
      env->PrintJson({{"revoked", {FingerprintText(a), FingerprintText(b)}}});
      env->Print("contexts of " + FingerprintText(a) + " no longer serve " + FingerprintText(b) +
                 "\n");
      return ExitCode::kOk;
    }
    ATTNDB_RETURN_IF_ERROR(CheckAnyIsStored(env, db, a, b));
    ATTNDB_RETURN_IF_ERROR(db.DeclareEqual(a, b));
    env->PrintJson({{"equal", {FingerprintText(a), FingerprintText(b)}}});
    env->Print("contexts of " + FingerprintText(a) + " serve " + FingerprintText(b) +
               ", and the other way round\n");
    return ExitCode::kOk;
  }

 private:
  // One of them may have no context yet; if none has, both are mistyped.
  static Status CheckAnyIsStored(Environment* env, const DB& db, const std::string& a,
                                 const std::string& b) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
    for (const ContextInfo& context : contexts) {
      if (context.fingerprint == a || context.fingerprint == b) return Status::Ok();
    }
    return env->WithAdvice(Status::NotFound("no context has fingerprint " + FingerprintText(a) +
                                            ", none " + FingerprintText(b)),
                           "'attndb describe CONTEXT' shows a context's");
  }

  std::string a_;
  std::string b_;
  bool undo_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDeclareEqual() { return std::make_unique<DeclareEqualCommand>(); }

}  // namespace attndb::cli
