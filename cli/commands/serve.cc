#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/api_key.h"
#include "cli/common/other_program.h"
#include "cli/common/serve_flags.h"
#include "engines/llama/source_tree.h"

namespace attndb::cli {
namespace {

std::string HowToGetServer() {
  if (llama::HasSources(llama::ProjectFolders())) {
    return "'make build' builds it with Boost 1.81, unless -DATTNDB_BUILD_SERVER=OFF leaves it out";
  }
  return "install an attndb with a server: built from its sources with llama.cpp, Boost 1.81 and "
         "-DATTNDB_BUILD_SERVER=ON";
}

// Checks the flags, then becomes attndb-server, which does the work. That gets a key in its
// environment, and never on its command line.
class ServeCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags_.AddTo(flags); }

  Result<ExitCode> Run(Environment* env) override {
    std::vector<std::string> words = env->options().words;
    if (env->IsGiven(kApiKeyFlag)) {
      ATTNDB_ASSIGN_OR_RETURN(const std::string key, ApiKeyOf(flags_.api_key));
      HandOverApiKey(key);
      words = WithoutApiKey(words);
    }
    return BecomeProgram(env, kServerProgram, std::move(words), HowToGetServer());
  }

 private:
  ServeFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeServe() { return std::make_unique<ServeCommand>(); }

}  // namespace attndb::cli
