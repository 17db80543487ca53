#include "cli/program.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/version.h"
#include "cli/usage_text.h"

namespace attndb::cli {
namespace {

struct Registered {
  CLI::App* app = nullptr;
  std::unique_ptr<Command> command;
};

// CLI11's help with our words, and one empty line where it leaves two.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    label("SUBCOMMAND", "COMMAND");
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

// "Exit codes: 0 ok, 1 error, ...", in lines of the help.
std::string ExitCodesText() {
  constexpr size_t kColumns = 90;
  std::string text = "\nExit codes:";
  size_t line_begin = 1;
  for (const ExitCodeText& entry : ExitCodeTexts()) {
    const bool is_last = &entry == &ExitCodeTexts().back();
    const std::string item = " " + std::to_string(static_cast<int>(entry.code)) + " " +
                             entry.brief + (is_last ? "." : ",");
    if (text.size() - line_begin + item.size() > kColumns) {
      text += "\n";
      line_begin = text.size();
    }
    text += text.ends_with('\n') ? item.substr(1) : item;
  }
  return text;
}

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
    flags.Add(
        {"--server", "URL", "Ask the server at this URL instead of a store (default: $ATTNDB_URL)"},
        &options->server);
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
    one.app = app->add_subcommand(entry.name, entry.summary)->group("Commands");
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
  app->footer(std::string("\nExamples:\n") + program.examples + ExitCodesText());
  AddCommonFlags(program, app, options);
}

ExitCode ReportUsage(const Program& program, const CLI::App& app, const CLI::ParseError& error,
                     const std::vector<std::string>& args, const CommonOptions& options) {
  const std::vector<std::string> unknown = app.remaining();
  for (const MovedCommand& moved : program.moved) {
    if (unknown.empty() || unknown.front() != moved.name) continue;
    const std::string what = std::string("'") + moved.name + "' is no command of " + program.name;
    return ReportFailure(Status::InvalidArgument(what), moved.advice, options);
  }
  return ReportFailure(Status::InvalidArgument(UsageText(app, error, args)),
                       "see '" + CommandText(app) + " --help'", options);
}

// The system may have no more memory; that is nobody's fault but of what was asked.
Result<ExitCode> RunInMemory(Command* command, Environment* env) {
  try {
    return command->Run(env);
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("there is not enough memory");
  }
}

ExitCode RunCommand(const Program& program, const std::vector<Registered>& commands,
                    const CommonOptions& options) {
  for (const Registered& one : commands) {
    if (!one.app->parsed()) continue;
    CommonOptions all = options;
    all.parser = one.app->get_parent();
    for (const CLI::Option* given : one.app->parse_order()) all.given.push_back(given->get_name());
    if (const auto faults = VariableFaults(); !faults.empty() && !one.command->bears_faults()) {
      return ReportFailure(Status::InvalidArgument(faults.front()), "unset it, or set it so",
                           options);
    }
    Environment env(std::move(all));
    const Result<ExitCode> result = RunInMemory(one.command.get(), &env);
    if (result.ok()) return *result;
    std::string_view advice = env.advice();
    // What the codes advise is about the user's store.
    const StatusCode code = result.status().code();
    const bool is_of_store = code != StatusCode::kNotFound || env.has_reached_contexts();
    if (advice.empty() && program.has_store && is_of_store) advice = AdviceFor(code);
    return ReportFailure(result.status(), advice, options);
  }
  return ReportFailure(Status::Internal("no command"), "", options);
}

// `help [COMMAND]` as the flag that says the same; no argument at all as a call for help.
std::vector<std::string> WithHelpFlag(std::vector<std::string> args) {
  if (args.empty()) return {"--help"};
  if (args.front() != "help") return args;
  args.erase(args.begin());
  args.push_back("--help");
  return args;
}

ExitCode ParseAndRun(const Program& program, const std::vector<std::string>& args) {
  CLI::App app(program.about);
  CommonOptions options;
  options.program = program.name;
  ConfigureMain(program, &app, &options);
  const std::vector<Registered> commands = AddCommands(program, &app, &options);
  const auto refuse = [&](const CLI::ParseError& error) {
    options.json = std::ranges::find(args, "--json") != args.end();
    return ReportUsage(program, app, error, args, options);
  };
  try {
    std::vector<std::string> last_first(args.rbegin(), args.rend());
    app.parse(std::move(last_first));
  } catch (const CLI::Success& success) {  // --help, --version.
    const std::string& first = args.front();
    if (!first.starts_with('-') && app.get_subcommands().empty()) {  // `attndb lst --help`.
      return refuse(CLI::ExtrasError(app.get_name(), {first}));
    }
    app.exit(success);
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    return refuse(error);
  }
  return RunCommand(program, commands, options);
}

// Whether stdout is a pipe that nobody reads any more, as behind `| head`.
bool IsReaderGone() {
  pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

ExitCode Main(const Program& program, int argc, char** argv) {
  const ExitCode code = ParseAndRun(program, WithHelpFlag({argv + std::min(argc, 1), argv + argc}));
  // A full disk behind a pipe shows only here.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (IsReaderGone()) return code;
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
