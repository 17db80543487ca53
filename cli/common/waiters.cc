#include "cli/common/waiters.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace attndb::cli {
namespace {

int OpenWaiters(const std::string& db_path) {
  return open((db_path + "/WAITERS").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

}  // namespace

Waiter::~Waiter() {
  if (fd_ >= 0) close(fd_);
}

void Waiter::Wait(const std::string& db_path) {
  if (fd_ >= 0) return;
  const int fd = OpenWaiters(db_path);
  // A writer that looks has it for a moment: then the next call succeeds.
  if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0) {
    fd_ = fd;
  } else if (fd >= 0) {
    close(fd);
  }
}

bool SomebodyWaits(const std::string& db_path) {
  const int fd = OpenWaiters(db_path);
  if (fd < 0) return false;
  const bool waits = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return waits;
}

}  // namespace attndb::cli
