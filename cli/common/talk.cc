#include "cli/common/talk.h"

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/common/interrupt.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

constexpr std::string_view kBlanks = " \t";

constexpr char kHelp[] =
    "/context        say what is talked about\n"
    "/context NAME   talk about another stored context\n"
    "/plan           say how it is attended to\n"
    "/plan TEXT      attend to it otherwise, from the next turn on\n"
    "/quit           end, as Ctrl-D does\n"
    "//TEXT          ask what begins with /\n";

// A line that is a command: "/plan full" -> "plan", "full".
struct LineCommand {
  std::string word;
  std::string rest;
};

LineCommand CommandOfLine(std::string_view line) {
  line.remove_prefix(1);
  while (!line.empty() && kBlanks.find(line.back()) != std::string_view::npos)
    line.remove_suffix(1);
  const size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const size_t rest = std::min(line.find_first_not_of(kBlanks, end), line.size());
  return {std::string(line.substr(0, end)), std::string(line.substr(rest))};
}

// Answers of commands go to stderr, apart from the model's answers.
void Say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  if (!text.ends_with('\n')) std::fputc('\n', stderr);
}

// Runs a command; *ends is set by the one that ends the chat.
Status RunLine(Talker* talker, const LineCommand& command, bool* ends) {
  if (command.word == "help") {
    Say(kHelp);
  } else if (command.word == "quit" || command.word == "exit") {
    *ends = true;
  } else if (command.word == "plan") {
    if (!command.rest.empty()) ATTNDB_RETURN_IF_ERROR(talker->SetPlan(command.rest));
    Say("plan " + talker->plan());
  } else if (command.word == "context") {
    if (!command.rest.empty()) ATTNDB_RETURN_IF_ERROR(talker->SwitchTo(command.rest));
    ATTNDB_ASSIGN_OR_RETURN(const std::string about, talker->About());
    Say(about);
  } else {
    return Status::InvalidArgument("unknown command '/" + command.word +
                                   "': /help lists them, and a question that begins with / is "
                                   "typed with //");
  }
  return Status();
}

}  // namespace

Result<ExitCode> Talk(Environment* env, Talker* talker) {
  const bool interactive = IsTerminal(stdin) && !env->json();
  const std::unique_ptr<LineReader> lines = MakeLineReader(interactive);
  return TalkByLines(env, talker, lines.get(), interactive);
}

Result<ExitCode> TalkByLines(Environment* env, Talker* talker, LineReader* lines,
                             bool interactive) {
  if (interactive) {
    env->Note("Ask; /help lists commands, Ctrl-D ends. Each turn is stored as '" + talker->name() +
              "'.");
  }
  Json turns = Json::array();
  Status status;
  for (bool ends = false; !ends && !Interrupted();) {
    const Result<std::string> line = lines->Next();
    if (!line.ok()) {
      if (line.status().code() != StatusCode::kNotFound) status = line.status();
      break;
    }
    if (line->find_first_not_of(kBlanks) == std::string::npos) continue;
    const bool is_quoted = line->starts_with("//");
    if (line->starts_with('/') && !is_quoted) {
      status = RunLine(talker, CommandOfLine(*line), &ends);
      if (status.ok()) continue;
      if (!interactive || status.code() == StatusCode::kCancelled) break;
      Say(std::exchange(status, Status()).message());
      env->WithAdvice(Status(), "").ok();  // Only for an error that ends the chat.
      continue;
    }
    const std::string question = line->substr(is_quoted ? 1 : 0);
    const Result<Json> answered = talker->Answer(question);
    if (!answered.ok()) {
      status = answered.status();
      break;
    }
    Json turn = JsonObject({{"question", question}, {"name", talker->name()}});
    turn.update(*answered);
    turns.push_back(std::move(turn));
  }
  if (interactive) std::fputc('\n', stderr);
  if (!status.ok() && status.code() != StatusCode::kCancelled) return status;
  env->PrintJson({{"name", talker->name()}, {"turns", turns}, {"interrupted", Interrupted()}});
  return Interrupted() ? ExitCode::kInterrupted : ExitCode::kOk;
}

std::string GoesOnText(const std::string& name, const std::string& context, bool begins_so) {
  const std::string text = "goes on with '" + name + "'";
  if (begins_so || context.empty()) return text;
  return text + ", which begins with another text than '" + context +
         "' has now: --name NAME begins a new chat about that";
}

std::string GoneContextAdvice(const std::string& name) {
  return "'attndb chat --name " + name + "' goes on with what was said";
}

std::string ChatNameOf(const std::string& context) {
  constexpr std::string_view kSuffix = ".chat";
  if (context.ends_with(kSuffix)) return context;
  return context.substr(context.starts_with('#') ? 1 : 0) + std::string(kSuffix);
}

}  // namespace attndb::cli
