#include "store/store_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "attndb/db.h"
#include "store/object_path.h"

namespace attndb::store {
namespace {

// SQLite's VFS "unix" takes full paths of 512 bytes, including the path of the journal beside the
// file. And a catalog is created under a temporary name.
constexpr size_t kMaxSqlitePathBytes = 512;
constexpr std::string_view kLongestEnding = ".new-journal";
static_assert(DB::kMaxPathBytes + 1 + kCatalogName.size() + kLongestEnding.size() ==
              kMaxSqlitePathBytes);

// A path that can't be followed counts as it is: the open reports the reason.
size_t FullPathBytes(const std::string& path) {
  std::error_code error;
  std::filesystem::path full = std::filesystem::weakly_canonical(path, error);
  if (error) full = std::filesystem::absolute(path, error);
  if (!full.has_filename()) full = full.parent_path();  // It ends with a slash.
  return error ? path.size() : full.native().size();
}

// The path itself, or the nearest folder above that is there, must be a folder. What else stands in
// the way, opening it says.
Status CheckIsFolder(const std::string& path) {
  std::filesystem::path at = path;
  if (!at.has_filename()) at = at.parent_path();  // It ends with a slash.
  for (; !at.empty() && at != at.parent_path(); at = at.parent_path()) {
    struct stat info {};
    if (stat(at.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return Status::Ok();
      return Status::InvalidArgument("'" + at.string() + "' is a file, expected a folder" +
                                     (at == path ? "" : " for store '" + path + "'"));
    }
    if (errno != ENOENT && errno != ENOTDIR) return Status::Ok();
    if (lstat(at.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) continue;
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(at, ignored).string();
    return Status::InvalidArgument("'" + at.string() + "' is a symbolic link to '" + target +
                                   "', which does not exist");
  }
  return Status::Ok();
}

}  // namespace

Status CheckStorePath(const std::string& path) {
  if (path.empty()) return Status::InvalidArgument("the store's path is empty, expected a folder");
  if (path.find('\0') != std::string::npos) {
    return Status::InvalidArgument("store '" + std::string(path.c_str()) +
                                   "': a zero byte follows in its path, expected none");
  }
  const size_t num_bytes = FullPathBytes(path);
  if (num_bytes <= DB::kMaxPathBytes) return CheckIsFolder(path);
  return Status::InvalidArgument("store '" + path + "': its full path, links followed, has " +
                                 std::to_string(num_bytes) + " bytes, expected at most " +
                                 std::to_string(DB::kMaxPathBytes) +
                                 ": open a folder with a shorter path");
}

}  // namespace attndb::store
