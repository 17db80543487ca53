#include "cli/common/context_capture.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "attndb/db.h"
#include "cli/common/capture.h"
#include "cli/common/context_text.h"
#include "cli/common/engine_flags.h"

namespace attndb::cli {
namespace {

using llama::LlamaEngine;

class EngineContextCapture : public ContextCapture {
 public:
  void AddFlags(Flags* flags) override { model_.AddTo(flags); }

  Status Run(Environment* env, const std::string& context, uint64_t num_queries,
             const std::string& path) override {
    // Reading only: looking at a context is not using it.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context));
    if (!info.cuts.empty()) {
      return env->WithAdvice(
          Status::Unsupported("tokens have left '" + NameOf(info) +
                              "': what is left of it is no text that a plan could be judged by"),
          "'attndb capture' runs its text anew");
    }
    // The name may have another context by now.
    const std::string id = IdName(info.id);
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, db.Tokens(id));
    ATTNDB_ASSIGN_OR_RETURN(LlamaEngine engine, model_.OpenFor(env, info));
    Result<SessionStart> start =
        db.CreateSession(engine.spec(), tokens, {.context = id, .plan = "full"});
    if (!start.ok()) return start.status();
    CaptureOptions options;
    options.num_queries = std::min<uint64_t>(num_queries, tokens.size());
    const uint64_t num_kept = tokens.size() - options.num_queries;
    Session& session = start->session;
    ATTNDB_RETURN_IF_ERROR(session.Crop(std::min(num_kept, session.num_tokens())));
    options.notes = {{"model", std::filesystem::path(engine.info().path).stem().string()},
                     {"context", NameOf(info)}};
    return Capture(&engine, &session, tokens, options, path);
  }

 private:
  ModelFlags model_;
};

}  // namespace

std::unique_ptr<ContextCapture> MakeContextCapture() {
  return std::make_unique<EngineContextCapture>();
}

}  // namespace attndb::cli
