// Commands that ask a server, in a build without its client: each returns an error.
#include "cli/client/server_commands.h"
#include "cli/client/server_contexts.h"

namespace attndb::cli {
namespace {

Status NoClient(Environment* env) {
  return env->WithAdvice(
      Status::Unsupported("this build can't ask " + env->server() + ": it has no server part"),
      "build it with llama.cpp and -DATTNDB_BUILD_SERVER=ON, or name a store with --db");
}

}  // namespace

Result<std::unique_ptr<Contexts>> OpenServerContexts(Environment* env) { return NoClient(env); }
Result<std::unique_ptr<Contexts>> ConnectContexts(Environment* env) { return NoClient(env); }

Result<ExitCode> ImportThroughServer(Environment* env, const ServerImport&) {
  return NoClient(env);
}
Result<ExitCode> CatThroughServer(Environment* env, const std::string&, bool) {
  return NoClient(env);
}
Result<ExitCode> VerifyThroughServer(Environment* env, const std::string&) { return NoClient(env); }
Result<ExitCode> CompactThroughServer(Environment* env, const std::string&, uint64_t) {
  return NoClient(env);
}
Result<ExitCode> BuildThroughServer(Environment* env, const std::string&, const std::string&) {
  return NoClient(env);
}
Result<ExitCode> SetQuotaThroughServer(Environment* env, uint64_t) { return NoClient(env); }
Result<ExitCode> AskThroughServer(Environment* env, const ServerQuestion&) { return NoClient(env); }
Result<ExitCode> FindThroughServer(Environment* env, const std::string&, const FindOptions&) {
  return NoClient(env);
}
Result<ExitCode> ExplainThroughServer(Environment* env, const ServerExplain&) {
  return NoClient(env);
}
Result<ExitCode> ChatThroughServer(Environment* env, const ServerChat&) { return NoClient(env); }

}  // namespace attndb::cli
