#include "engines/llama/abort_guard.h"

#include <ggml.h>

#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

namespace attndb::llama {
namespace {

thread_local int num_guards = 0;
ggml_abort_callback_t previous = nullptr;  // Set once, before ours can be called.

void OnAbort(const char* message) {
  if (num_guards > 0) throw std::runtime_error(message);
  if (previous != nullptr) return previous(message);
  std::fprintf(stderr, "%s\n", message);
}

}  // namespace

AbortGuard::AbortGuard() {
  static std::once_flag installed;
  std::call_once(installed, [] { previous = ggml_set_abort_callback(OnAbort); });
  ++num_guards;
}

AbortGuard::~AbortGuard() { --num_guards; }

Status Guarded(const std::string& what, const std::function<Status()>& step) {
  const AbortGuard guard;
  try {
    return step();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted(what + ": no memory for what llama.cpp asks for");
  } catch (const std::exception& error) {
    return Status::InvalidArgument(what + ": llama.cpp gave up: " + error.what());
  }
}

}  // namespace attndb::llama
