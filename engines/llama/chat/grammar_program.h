// The part of attndb-chat that keeps grammars: it loads a model's vocabulary once, and forks a
// process for each grammar (grammar_worker.h), so that none loads it again, and each has limits and
// ends alone.
//
//   {model}           the first frame: the path of a GGUF file, whose vocabulary is loaded
//   a byte, and with it a socket (SCM_RIGHTS)
//                     a new process answers requests on that socket
//
// When such a process has ended while the socket was open, its last frame is {ended}: the status as
// waitpid() gives it, in digits. {failed}: it could not be started.
//
// Threads: one thread.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_PROGRAM_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_PROGRAM_H_

namespace attndb::llama {

inline constexpr char kGrammarArgument[] = "grammars";

// Runs until the other end of `socket` closes. Returns the exit code.
int RunGrammarProgram(int socket);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_GRAMMAR_PROGRAM_H_
