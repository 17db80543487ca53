// A step in a process of its own, so that its death is an answer and not ours.
//
// The child is a copy of this process (fork): call it while this process has one thread, or where
// the step uses nothing that another thread may hold. It writes no core file, and what it prints
// is kept instead of shown.
//
// Errors:  kResourceExhausted (no process).
// Threads: see above.
#ifndef ATTNDB_ENGINES_LLAMA_CHILD_PROCESS_H_
#define ATTNDB_ENGINES_LLAMA_CHILD_PROCESS_H_

#include <functional>
#include <string>

#include "attndb/result.h"

namespace attndb::llama {

struct ChildEnd {
  int exit_code = -1;      // Exit code of a child that ended by itself.
  int signal = 0;          // The signal that ended the child; 0 = none.
  bool timed_out = false;  // We ended the child after `timeout_seconds`.
  std::string output;      // The last 16 KiB of what it wrote to stdout and stderr.

  bool ok() const { return !timed_out && signal == 0 && exit_code == 0; }
};

// Runs `step` in a child, which exits with what `step` returns. Waits for its end.
Result<ChildEnd> RunInChild(const std::function<int()>& step, double timeout_seconds);

// "SIGSEGV", or "signal 77" where it has no name.
std::string SignalName(int signal);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHILD_PROCESS_H_
