// attndb-chat: renders chat templates, reads replies and compiles schemas for other programs of
// attndb, which start it (chat_renderer.h). Requests and answers are frames on the socket that is
// its standard input (chat_wire.h).
//
// A request that goes beyond chat_limits.h ends the program: by a signal, or with
// kChatOutOfMemoryCode.
//
// With the argument "grammars" it keeps the grammars of replies instead: grammar_program.h.

#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>

#include "engines/llama/chat/chat_answers.h"
#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/chat_limits.h"
#include "engines/llama/chat/chat_wire.h"
#include "engines/llama/chat/grammar_program.h"
#include "engines/llama/chat/program_limits.h"

namespace attndb::llama {
namespace {

constexpr int kSocket = STDIN_FILENO;

// Answers requests until the other end closes.
int Run() {
  ChatAnswers answers;
  while (true) {
    const Result<ChatFields> request = ReadFrame(kSocket);
    if (!request.ok()) return EXIT_SUCCESS;
    SetCpuLimit(ChatCpuSeconds(FieldOf(*request, "messages").size()));
    const ChatFields answer = answers.Answer(*request);
    SetCpuLimit(0);
    if (!WriteFrame(kSocket, answer).ok()) return EXIT_SUCCESS;
  }
}

int Main(int argc, char** argv) {
  if (!BeginProgram()) return EXIT_FAILURE;
  // llama.cpp would make an error of a template out of it.
  std::set_new_handler([] { _exit(kChatOutOfMemoryCode); });
  // The vocabulary is loaded before a limit holds.
  if (argc > 1 && argv[1] == std::string_view(kGrammarArgument)) {
    return RunGrammarProgram(kSocket);
  }
  return LimitMemory() ? Run() : EXIT_FAILURE;
}

}  // namespace
}  // namespace attndb::llama

int main(int argc, char** argv) { return attndb::llama::Main(argc, argv); }
