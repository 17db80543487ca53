#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/contexts.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

// The bytes of segments that other contexts use in part.
std::string RestText(const ContextList& list) {
  uint64_t num_retained = 0;
  for (const ContextInfo& context : list.contexts) num_retained += context.retained_bytes;
  if (num_retained == 0) return "";
  return "; 'attndb compact' frees what no context uses of shared segments, up to " +
         FormatBytes(num_retained);
}

class RmCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"contexts", "CONTEXT", "Names, #ids, or patterns as 'book-*'", /*required=*/true},
               &contexts_);
  }

  // All or none: nothing is removed if one of them is not there.
  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const auto contexts, OpenContexts(env, Access::kWrite));
    ATTNDB_ASSIGN_OR_RETURN(const ContextList before, contexts->List());
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, Resolve(before));
    for (const std::string& name : names) {
      ATTNDB_RETURN_IF_ERROR(contexts->Describe(name).status());
    }
    for (const std::string& name : names) {
      ATTNDB_RETURN_IF_ERROR(contexts->Drop(name));
      env->Print("removed " + name + "\n");
    }
    ATTNDB_ASSIGN_OR_RETURN(const ContextList after, contexts->List());
    const uint64_t num_freed = before.file_bytes - std::min(before.file_bytes, after.file_bytes);
    env->PrintJson({{"removed", names}, {"freed_bytes", num_freed}});
    env->Note("freed " + FormatBytes(num_freed) + RestText(after));
    return ExitCode::kOk;
  }

 private:
  // The given names, and the names that match given patterns, each once.
  Result<std::vector<std::string>> Resolve(const ContextList& list) const {
    std::vector<std::string> names;
    const auto add = [&names](const std::string& name) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    };
    for (const std::string& context : contexts_) {
      if (!IsPattern(context)) {
        add(context);
        continue;
      }
      const std::vector<ContextInfo> matching = Matching(list.contexts, context);
      if (matching.empty()) return Status::NotFound("no context fits '" + context + "'");
      for (const ContextInfo& info : matching) add(NameOf(info));
    }
    return names;
  }

  std::vector<std::string> contexts_;
};

}  // namespace

std::unique_ptr<Command> MakeRm() { return std::make_unique<RmCommand>(); }

}  // namespace attndb::cli
