// attndb-chat: renders chat templates, reads replies and compiles schemas for other programs of
// attndb, which start it (chat_renderer.h). Requests and answers are frames on the socket that is
// its standard input (chat_wire.h).
//
// A request that goes beyond chat_limits.h ends the program: by a signal, or with
// kChatOutOfMemoryCode.

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>
#include <vector>

#include "engines/llama/chat/chat_answers.h"
#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/chat_limits.h"

namespace attndb::llama {
namespace {

constexpr int kSocket = STDIN_FILENO;

// The sanitizers reserve more addresses than any limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

// Bytes of addresses that the program has in use.
uint64_t AddressBytes() {
  uint64_t pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Only the socket is this program's. Files that it inherited would stay open as long as it lives.
void CloseOthers() {
  std::vector<int> inherited;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (fd > STDERR_FILENO) inherited.push_back(fd);
  }
  for (const int fd : inherited) close(fd);
}

// Limits what the process may have of a resource, beyond no limit that it has already.
bool Limit(decltype(RLIMIT_AS) resource, uint64_t most) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(resource, &limit) == 0;
}

// Whether all limits hold.
bool LimitSelf() {
  CloseOthers();
  // These are for the program that started this one, and that closes the socket when it ends.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  setenv("GGML_NO_BACKTRACE", "1", 1);  // NOLINT(concurrency-mt-unsafe): the only thread.
  if (!Limit(RLIMIT_CORE, 0)) return false;
  if (!kLimitsMemory) return true;
  const uint64_t bytes = AddressBytes();
  return bytes > 0 && Limit(RLIMIT_AS, bytes + kChatMemoryBytes);
}

// SIGPROF ends the program when so much CPU is used; 0: never.
void SetCpuLimit(int seconds) {
  const itimerval timer = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

// Answers requests until the other end closes.
int Run() {
  ChatAnswers answers;
  while (true) {
    const Result<ChatFields> request = ReadFrame(kSocket);
    if (!request.ok()) return EXIT_SUCCESS;
    SetCpuLimit(kChatCpuSeconds);
    const ChatFields answer = answers.Answer(*request);
    SetCpuLimit(0);
    if (!WriteFrame(kSocket, answer).ok()) return EXIT_SUCCESS;
  }
}

}  // namespace
}  // namespace attndb::llama

int main() {
  if (!attndb::llama::LimitSelf()) return EXIT_FAILURE;
  // llama.cpp would make an error of a template out of it.
  std::set_new_handler([] { _exit(attndb::llama::kChatOutOfMemoryCode); });
  return attndb::llama::Run();
}
