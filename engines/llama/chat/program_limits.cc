#include "engines/llama/chat/program_limits.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "engines/llama/chat/chat_limits.h"

namespace attndb::llama {
namespace {

// The sanitizers reserve more addresses than any limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

// Bytes of addresses that the process has in use.
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

}  // namespace

bool BeginProgram() {
  CloseOthers();
  // These are for the program that started this one, and that closes the socket when it ends.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  setenv("GGML_NO_BACKTRACE", "1", 1);  // NOLINT(concurrency-mt-unsafe): the only thread.
  return Limit(RLIMIT_CORE, 0);
}

bool LimitMemory() {
  if (!kLimitsMemory) return true;
  const uint64_t bytes = AddressBytes();
  return bytes > 0 && Limit(RLIMIT_AS, bytes + kChatMemoryBytes);
}

void SetCpuLimit(int seconds) {
  const itimerval timer = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace attndb::llama
