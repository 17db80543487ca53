#include <algorithm>
#include <string>

#include "cli/commands/commands.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class CompactCommand : public Command {
 public:
  void AddFlags(Flags* /*flags*/) override {}

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false, DBOptions()));
    ATTNDB_ASSIGN_OR_RETURN(const DBStats before, db.Stats());
    const double start = MonotonicSeconds();
    ATTNDB_RETURN_IF_ERROR(db.Compact());
    ATTNDB_RETURN_IF_ERROR(db.WaitForBackground());
    const double seconds = MonotonicSeconds() - start;
    ATTNDB_ASSIGN_OR_RETURN(const DBStats after, db.Stats());
    env->PrintJson({{"num_contexts_before", before.num_contexts},
                    {"num_contexts", after.num_contexts},
                    {"num_segments_before", before.num_segments},
                    {"num_segments", after.num_segments},
                    {"file_bytes_before", before.file_bytes},
                    {"file_bytes", after.file_bytes},
                    {"seconds", seconds}});
    const uint64_t freed = before.file_bytes - std::min(before.file_bytes, after.file_bytes);
    env->Print("segments " + FormatCount(before.num_segments) + " -> " +
               FormatCount(after.num_segments) + ", contexts " + FormatCount(before.num_contexts) +
               " -> " + FormatCount(after.num_contexts) + ", freed " + FormatBytes(freed) + " in " +
               FormatSeconds(seconds) + "\n");
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeCompact() { return std::make_unique<CompactCommand>(); }

}  // namespace attndb::cli
