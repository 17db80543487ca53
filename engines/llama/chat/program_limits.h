// Limits that a process of attndb-chat sets itself: chat_limits.h.
//
// Threads: the process has one.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_PROGRAM_LIMITS_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_PROGRAM_LIMITS_H_

namespace attndb::llama {

// Closes the files that were inherited, leaves signals of the terminal to the program that started
// this one, and writes no core files. False: that can't be had.
bool BeginProgram();

// From now on the process gets kChatMemoryBytes more than it has. False: that can't be had.
bool LimitMemory();

// SIGPROF ends the process when it has used so much more CPU time; 0: never.
void SetCpuLimit(int seconds);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_PROGRAM_LIMITS_H_
