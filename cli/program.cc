#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/version.h"

namespace attndb::cli {
namespace {

constexpr char kExitCodes[] =
    "\nExit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 damage, 5 busy, 6 no room, 7 check\n"
    "differs, 8 name taken, 9 read-only, 10 unsupported, 130 interrupted.";

struct Registered {
  CLI::App* app = nullptr;
  std::unique_ptr<Command> command;
};

// CLI11's help with our words, and one empty line where it leaves two.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    label("SUBCOMMAND", "COMMAND");
    label("Subcommands", "Commands");
    label("Positionals", "Arguments");
    label("REQUIRED", "(required)");
    column_width(26);
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at)) {
      text.erase(at, 1);
    }
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
  }
};

std::string HelpEnd(const CommandEntry& entry) {
  std::string text = "\nExamples:\n";
  std::string_view examples = entry.examples;
  while (!examples.empty()) {
    const size_t end = examples.find('\n');
    text += "  " + std::string(examples.substr(0, end)) + "\n";
    examples.remove_prefix(end == std::string_view::npos ? examples.size() : end + 1);
  }
  return text;
}

void AddCommonFlags(const Program& program, CLI::App* app, CommonOptions* options) {
  Flags flags(app);
  flags.Group("Options of every command");
  if (program.has_store) {
    flags.Add(
        {"--db", "PATH", "Folder of the store (default: $ATTNDB_PATH, else ~/.local/share/attndb)"},
        &options->db_path);
    flags.Add({"--tenant", "NAME", "See and write this tenant's contexts only"}, &options->tenant);
    flags.Add({"--wait", "SECONDS", "Wait for another process that writes (default: 0)"},
              &options->wait_seconds, 0.0, 86400.0 * 365);
  }
  flags.Add({"--json", "", "One JSON object on stdout, errors too"}, &options->json);
  flags.Add({"-q,--quiet", "", "No progress and no notes on stderr"}, &options->quiet);
}

std::vector<Registered> AddCommands(const Program& program, CLI::App* app, CommonOptions* options) {
  std::vector<Registered> all;
  for (const CommandEntry& entry : program.commands) {
    Registered one;
    one.command = entry.make();
    one.app = app->add_subcommand(entry.name, entry.summary);
    one.app->set_help_flag("-h,--help", "Show this help");
    one.app->footer(HelpEnd(entry));
    Flags flags(one.app);
    one.command->AddFlags(&flags);
    AddCommonFlags(program, one.app, options);
    all.push_back(std::move(one));
  }
  return all;
}

void ConfigureMain(const Program& program, CLI::App* app, CommonOptions* options) {
  const std::string name = program.name;
  app->name(name);
  app->set_help_flag("-h,--help",
                     "Show this help; '" + name + " COMMAND --help' shows a command's");
  app->set_version_flag("--version", name + " " + Version());
  app->require_subcommand(1);
  app->formatter(std::make_shared<HelpFormatter>());  // Commands inherit it.
  app->footer(std::string("\nExamples:\n") + program.examples + kExitCodes);
  AddCommonFlags(program, app, options);
}

// CLI11 says "--foo: 1 required" and the like; the user's next step is always the same.
ExitCode ReportUsage(const Program& program, const CLI::App& app, const CLI::ParseError& error,
                     const CommonOptions& options) {
  const std::vector<std::string> unknown = app.remaining();
  for (const MovedCommand& moved : program.moved) {
    if (unknown.empty() || unknown.front() != moved.name) continue;
    const std::string what = std::string("'") + moved.name + "' is no command of " + program.name;
    return ReportFailure(Status::InvalidArgument(what), moved.advice, options);
  }
  std::string command = program.name;
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  return ReportFailure(Status::InvalidArgument(error.what()), "see '" + command + " --help'",
                       options);
}

ExitCode RunCommand(const Program& program, const std::vector<Registered>& commands,
                    const CommonOptions& options) {
  for (const Registered& one : commands) {
    if (!one.app->parsed()) continue;
    Environment env(options);
    const Result<ExitCode> result = one.command->Run(&env);
    if (result.ok()) return *result;
    std::string_view advice = env.advice();
    // What the codes advise is about the user's store.
    if (advice.empty() && program.has_store) advice = AdviceFor(result.status().code());
    return ReportFailure(result.status(), advice, options);
  }
  return ReportFailure(Status::Internal("no command"), "", options);
}

bool HasJsonFlag(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

ExitCode ParseAndRun(const Program& program, int argc, char** argv) {
  CLI::App app(program.about);
  CommonOptions options;
  options.program = program.name;
  ConfigureMain(program, &app, &options);
  const std::vector<Registered> commands = AddCommands(program, &app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version.
    app.exit(success);
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    options.json = HasJsonFlag(argc, argv);
    return ReportUsage(program, app, error, options);
  }
  return RunCommand(program, commands, options);
}

ExitCode Main(const Program& program, int argc, char** argv) {
  const ExitCode code = ParseAndRun(program, argc, argv);
  // A full disk behind a pipe shows only here.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "%s: cannot write to stdout\n", program.name);
  return code == ExitCode::kOk ? ExitCode::kError : code;
}

}  // namespace

int RunProgram(const Program& program, int argc, char** argv) {
  try {
    return static_cast<int>(Main(program, argc, argv));
  } catch (const std::exception& error) {  // Out of memory, or a bug: never a core dump for a user.
    std::fprintf(stderr, "%s: %s; this is a bug of attndb: please report it\n", program.name,
                 error.what());
    return static_cast<int>(ExitCode::kError);
  }
}

}  // namespace attndb::cli
