#include "storage/io/lock_holder.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>

#include "common/quote.h"

namespace attndb::storage {
namespace {

// The form of a file's name in /proc/locks: "fe:00:131074".
std::string FileInLocks(const struct stat& info) {
  char text[64];
  const int length =
      std::snprintf(text, sizeof(text), "%02x:%02x:%llu", major(info.st_dev), minor(info.st_dev),
                    static_cast<unsigned long long>(info.st_ino));
  return {text, static_cast<size_t>(length)};
}

// The process of the lock in a line such as "1: FLOCK  ADVISORY  WRITE 1234 fe:00:131074 0 EOF"; 0
// if it is not of this file.
pid_t HolderIn(const std::string& line, const std::string& file) {
  std::istringstream words(line);
  std::string number;
  std::string kind;
  std::string mode;
  std::string access;
  std::string locked;
  pid_t pid = 0;
  words >> number >> kind >> mode >> access >> pid >> locked;
  return kind == "FLOCK" && locked == file && pid > 0 ? pid : 0;
}

// A word of a command line that may be shown: a name, short and without spaces.
bool IsPlainWord(const std::string& word) {
  constexpr size_t kMaxBytes = 64;
  return !word.empty() && word[0] != '-' && word.size() <= kMaxBytes &&
         word.find_first_of(" \t\n") == std::string::npos;
}

// "attndb import notes.txt"; the process's own name if nothing more is known.
std::string CommandOf(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream line(folder + "/cmdline");
  std::string command;
  std::string word;
  for (int i = 0; i < 3 && std::getline(line, word, '\0'); ++i) {
    if (i == 0) word = word.substr(word.find_last_of('/') + 1);
    if (!IsPlainWord(word)) break;
    command += (i == 0 ? "" : " ") + word;
  }
  if (command.find(' ') == std::string::npos) {
    std::getline(std::ifstream(folder + "/comm"), command);
  }
  std::string shown = Quoted(command);
  return shown.substr(1, shown.size() - 2);
}

// How long the lock is held: since the file was touched, or else since the process began.
int64_t SecondsHeld(pid_t pid, const struct stat& info) {
  struct stat process {};
  const bool is_there = ::stat(("/proc/" + std::to_string(pid)).c_str(), &process) == 0;
  const time_t since = std::max(info.st_mtime, is_there ? process.st_mtime : 0);
  return std::max<int64_t>(0, ::time(nullptr) - since);
}

// "12 s", "3 min", "5 h".
std::string DurationText(int64_t seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 3600;
  if (seconds < 2 * kMinute) return std::to_string(seconds) + " s";
  if (seconds < 2 * kHour) return std::to_string(seconds / kMinute) + " min";
  return std::to_string(seconds / kHour) + " h";
}

}  // namespace

std::string LockHolderText(int fd) {
  struct stat info {};
  pid_t pid = 0;
  if (::fstat(fd, &info) == 0) {
    const std::string file = FileInLocks(info);
    std::ifstream locks("/proc/locks");
    for (std::string line; pid == 0 && std::getline(locks, line);) pid = HolderIn(line, file);
  }
  if (pid == 0) return "another process or another open store";
  if (pid == ::getpid()) return "another open store of this process";
  const std::string command = CommandOf(pid);
  return "process " + std::to_string(pid) + (command.empty() ? "" : " (" + command + ")") +
         " for " + DurationText(SecondsHeld(pid, info));
}

}  // namespace attndb::storage
