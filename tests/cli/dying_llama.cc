// Takes the place of llama.cpp's forward, with LD_PRELOAD: an instruction that this processor does
// not have, as a build for another one would meet.
#include <csignal>

struct llama_context;

extern "C" __attribute__((visibility("default"))) int llama_decode(llama_context*, ...) {
  std::signal(SIGILL, SIG_DFL);
  return std::raise(SIGILL);
}
