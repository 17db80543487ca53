#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "attndb/version.h"
#include "cli/command_tree.h"
#include "cli/commands/commands.h"
#include "cli/common/advice.h"
#include "cli/common/completion.h"
#include "cli/common/man_page.h"
#include "cli/common/variables.h"
#include "cli/parser.h"

namespace attndb::cli {
namespace {

// Prints a text that is made from all commands: the text itself, or JSON.
void PrintText(Environment* env, const std::string& text) {
  env->Print(text);
  env->PrintJson({{"text", text}});
}

class CompletionCommand : public Command {
 public:
  bool bears_faults() const override { return true; }
  void AddFlags(Flags* flags) override {
    flags->Add({"shell", "bash|zsh|fish", "The shell that reads it", /*required=*/true}, &shell_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(env->UseStore());
    using Writer = std::string (*)(const CommandTree&);
    constexpr std::array<std::pair<std::string_view, Writer>, 3> kShells = {
        {{"bash", BashCompletion}, {"zsh", ZshCompletion}, {"fish", FishCompletion}}};
    for (const auto& [name, write] : kShells) {
      if (name != shell_) continue;
      PrintText(env, write(env->options().parser->Tree()));
      return ExitCode::kOk;
    }
    return Status::InvalidArgument("expected bash, zsh or fish, found '" + shell_ + "'");
  }

 private:
  std::string shell_;
};

class ManCommand : public Command {
 public:
  bool bears_faults() const override { return true; }
  void AddFlags(Flags* /*flags*/) override {}

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(env->UseStore());
    ManPageFacts facts = {.version = Version(), .exit_codes = {}, .advice = {}, .variables = {}};
    for (const ExitCodeText& entry : ExitCodeTexts()) {
      facts.exit_codes.emplace_back(std::to_string(static_cast<int>(entry.code)), entry.meaning);
    }
    for (const AdviceEntry& entry : AdviceTable()) {
      if (entry.advice[0] != '\0') facts.advice.emplace_back(entry.kind, entry.advice);
    }
    for (const Variable& variable : Variables()) {
      facts.variables.emplace_back(variable.name, variable.meaning);
    }
    PrintText(env, ManPage(env->options().parser->Tree(), facts));
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeCompletion() { return std::make_unique<CompletionCommand>(); }
std::unique_ptr<Command> MakeMan() { return std::make_unique<ManCommand>(); }

}  // namespace attndb::cli
