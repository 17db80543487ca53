// Keeps llama.cpp's log instead of printing it: its last complaints become part of our error
// messages.
//
// llama.cpp has one log callback a process. The first call of BeginLog installs ours, which a later
// llama_log_set of the program replaces (messages are then less detailed, nothing else changes).
//
// Threads: thread-safe; complaints of loads that run at the same time may mix.
#ifndef ATTNDB_ENGINES_LLAMA_LLAMA_LOG_H_
#define ATTNDB_ENGINES_LLAMA_LLAMA_LOG_H_

#include <string>

namespace attndb::llama {

// Forgets what was logged so far.
void BeginLog();

// The errors logged since BeginLog, or the warnings if there were none, joined by "; ", at most a
// few hundred characters. Empty if there were neither.
std::string LoggedComplaints();

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_LLAMA_LOG_H_
