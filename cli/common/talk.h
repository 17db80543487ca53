// A dialogue by lines of stdin, until it ends or the user interrupts: the work of `attndb chat`,
// with any talker. A line that begins with "/" is a command to the chat itself: /help lists them.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_TALK_H_
#define ATTNDB_CLI_COMMON_TALK_H_

#include <string>

#include "attndb/result.h"
#include "cli/common/line_reader.h"
#include "cli/environment.h"

namespace attndb::cli {

// Answers the questions: a model of this process, or a server. A failed change changes nothing.
class Talker {
 public:
  Talker() = default;
  Talker(const Talker&) = delete;
  Talker& operator=(const Talker&) = delete;
  virtual ~Talker() = default;

  // The name that turns are stored under.
  virtual std::string name() const = 0;
  virtual std::string plan() const = 0;

  // Answers a question, stores the turn, and returns "answer" and its figures, as JSON.
  virtual Result<Json> Answer(const std::string& question) = 0;

  // The subject of the dialogue, in one line.
  virtual Result<std::string> About() = 0;
  // Switches to another stored context, under its own name.
  virtual Status SwitchTo(const std::string& context) = 0;
  // Changes the plan from the next turn on.
  virtual Status SetPlan(const std::string& plan) = 0;
};

// Errors: those of reading; of the first turn that fails; of a command, if no user sits at the
//         terminal to enter another.
Result<ExitCode> Talk(Environment* env, Talker* talker);

// Does the same with other lines. `interactive`: a user enters them.
Result<ExitCode> TalkByLines(Environment* env, Talker* talker, LineReader* lines, bool interactive);

// A chat prints this when it goes on with the dialogue `name`. `begins_so`: the dialogue begins
// with the text that `context` has now. `context` is empty if the chat is about no context.
std::string GoesOnText(const std::string& name, const std::string& context, bool begins_so);
// The advice where `context` is gone, and the dialogue `name` about it is there.
std::string GoneContextAdvice(const std::string& name);

// "manual" and "manual.chat" -> "manual.chat": the name of a chat about a context.
std::string ChatNameOf(const std::string& context);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TALK_H_
