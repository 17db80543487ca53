#include "store/place.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "attndb/result.h"

namespace attndb::store {

Status Place::Identify(const std::string& path, Identity* identity) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return Status::IoError(path + ": stat: " + std::strerror(errno));
  }
  *identity = {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino)};
  return Status::Ok();
}

Status Place::Add(const std::string& path) {
  Identity identity;
  ATTNDB_RETURN_IF_ERROR(Identify(path, &identity));
  paths_.emplace_back(path, identity);
  return Status::Ok();
}

Status Place::Check() const {
  for (const auto& [path, opened] : paths_) {
    Identity found;
    const Status status = Identify(path, &found);
    if (status.ok() && found == opened) continue;
    return Status::IoError(path + ": was moved, replaced or removed while the store was open" +
                           (status.ok() ? "" : " (" + status.message() + ")") +
                           ": nothing is stored; close the store, and open it where it lies");
  }
  return Status::Ok();
}

}  // namespace attndb::store
