#include "cli/program.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/version.h"
#include "cli/common/variables.h"
#include "cli/parser.h"

namespace attndb::cli {
namespace {

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

void AddCommonFlags(const Program& program, Flags flags, CommonOptions* options) {
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

using Commands = std::vector<std::unique_ptr<Command>>;

Commands AddCommands(const Program& program, Parser* parser, CommonOptions* options) {
  Commands commands;
  for (const CommandEntry& entry : program.commands) {
    commands.push_back(entry.make());
    Flags flags = parser->AddCommand(entry.name, entry.summary, HelpEnd(entry));
    commands.back()->AddFlags(&flags);
    AddCommonFlags(program, flags, options);
  }
  return commands;
}

ExitCode ReportUsage(const Program& program, const ParsedLine& line, const CommonOptions& options) {
  for (const MovedCommand& moved : program.moved) {
    if (line.unknown != moved.name) continue;
    const std::string what = std::string("'") + moved.name + "' is no command of " + program.name;
    return ReportFailure(Status::InvalidArgument(what), moved.advice, options);
  }
  return ReportFailure(Status::InvalidArgument(line.mistake), "see '" + line.where + " --help'",
                       options);
}

// Reports std::bad_alloc as a failure of the command, which asked for more memory than there is.
Result<ExitCode> RunInMemory(Command* command, Environment* env) {
  try {
    return command->Run(env);
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("there is not enough memory");
  }
}

ExitCode RunCommand(const Program& program, Command* command, CommonOptions options) {
  if (const auto faults = VariableFaults(); !faults.empty() && !command->bears_faults()) {
    return ReportFailure(Status::InvalidArgument(faults.front()),
                         "unset the variable, or give it one of these values", options);
  }
  Environment env(options);
  const Result<ExitCode> result = RunInMemory(command, &env);
  if (result.ok()) return *result;
  // The advice of a kind of failure is about the user's store.
  std::string advice = program.has_store ? env.AdviceOn(result.status()) : env.advice();
  const bool is_commands_own = !env.advice().empty() && advice == env.advice();
  if (program.guess != nullptr && !is_commands_own) {
    const std::string guess = program.guess(&env, result.status());
    if (!guess.empty()) advice = guess;
  }
  return ReportFailure(result.status(), advice, options);
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
  Parser parser({.name = program.name,
                 .about = program.about,
                 .footer = std::string("\nExamples:\n") + program.examples + ExitCodesText(),
                 .version = std::string(program.name) + " " + Version(),
                 .guesses = program.guesses});
  CommonOptions options;
  options.program = program.name;
  AddCommonFlags(program, parser.MainFlags(), &options);
  const Commands commands = AddCommands(program, &parser, &options);
  ParsedLine line = parser.Parse(args);
  switch (line.kind) {
    case ParsedLine::Kind::kShown:
      return ExitCode::kOk;
    case ParsedLine::Kind::kWrong:
      options.json = std::ranges::find(args, "--json") != args.end();
      return ReportUsage(program, line, options);
    case ParsedLine::Kind::kCommand:
      break;
  }
  options.command = program.commands[line.command_idx].name;
  options.parser = &parser;
  options.words = args;
  options.given = std::move(line.given);
  return RunCommand(program, commands[line.command_idx].get(), std::move(options));
}

// A program that was started with one of descriptors 0 to 2 closed ("<&-" in a shell) would get it
// for a file of its own: reads of stdin would wait for that, and messages be written to it. Opened
// the wrong way round, reads and writes fail as on a closed one.
void HoldStandardFiles() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free one, because lower ones are open. Child processes inherit it.
    (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Whether stdout is a pipe that has lost its reader, as behind `| head`.
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
  HoldStandardFiles();
  SetPathVariables();
  try {
    return static_cast<int>(Main(program, argc, argv));
  } catch (const std::exception& error) {  // Out of memory, or a bug: never a core dump for a user.
    std::fprintf(stderr, "%s: %s; this is a bug of attndb: please report it\n", program.name,
                 error.what());
    return static_cast<int>(ExitCode::kError);
  }
}

}  // namespace attndb::cli
