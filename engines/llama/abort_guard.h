// Turns an assertion of llama.cpp into an exception while a model is opened, where it would end the
// process: the net below gguf_check.h, which does not know all of the many architectures.
//
// ggml calls a function of ours before it ends the process; ours throws if this thread has a guard.
// The exception passes through ggml's C, which works if that was compiled with unwind tables, as
// every compiler does on x86-64 and arm64 unless told not to; without them the process ends as it
// would have. What llama.cpp had allocated by then is lost.
//
// ggml has one such function a process; the first guard installs ours for good. On threads without
// a guard it does what was there before: by default, it prints the assertion.
//
// Threads: each has its guards; assertions on llama.cpp's own threads are not caught.
#ifndef ATTNDB_ENGINES_LLAMA_ABORT_GUARD_H_
#define ATTNDB_ENGINES_LLAMA_ABORT_GUARD_H_

#include <functional>
#include <string>

#include "attndb/status.h"

namespace attndb::llama {

class AbortGuard {
 public:
  AbortGuard();
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;
};

// Runs `step`, which is about `what`, under a guard. Errors: those of `step`; kInvalidArgument with
// the words of the assertion or of an exception of llama.cpp's; kResourceExhausted (no memory).
Status Guarded(const std::string& what, const std::function<Status()>& step);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_ABORT_GUARD_H_
