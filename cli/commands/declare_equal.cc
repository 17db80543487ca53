#include <string>

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
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::string a, ParseFingerprint(a_));
    ATTNDB_ASSIGN_OR_RETURN(const std::string b, ParseFingerprint(b_));
    if (a == b) return Status::InvalidArgument("expected two models, found one fingerprint twice");
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false));
    ATTNDB_RETURN_IF_ERROR(db.DeclareEqual(a, b));
    env->PrintJson({{"equal", {FingerprintText(a), FingerprintText(b)}}});
    env->Print("contexts of " + FingerprintText(a) + " serve " + FingerprintText(b) +
               ", and the other way round\n");
    return ExitCode::kOk;
  }

 private:
  std::string a_;
  std::string b_;
};

}  // namespace

std::unique_ptr<Command> MakeDeclareEqual() { return std::make_unique<DeclareEqualCommand>(); }

}  // namespace attndb::cli
