#include "store/store_path.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "attndb/db.h"
#include "store/object_path.h"

namespace attndb::store {
namespace {

// SQLite's VFS "unix" takes full paths of 512 bytes, that of the journal beside the file included;
// and a catalog is made under a temporary name.
constexpr size_t kMaxSqlitePathBytes = 512;
constexpr std::string_view kLongestEnding = ".new-journal";
static_assert(DB::kMaxPathBytes + 1 + kCatalogName.size() + kLongestEnding.size() ==
              kMaxSqlitePathBytes);

// A path that can't be followed counts as it is: who opens it will say why.
size_t FullPathBytes(const std::string& path) {
  std::error_code error;
  std::filesystem::path full = std::filesystem::weakly_canonical(path, error);
  if (error) full = std::filesystem::absolute(path, error);
  if (!full.has_filename()) full = full.parent_path();  // It ends with a slash.
  return error ? path.size() : full.native().size();
}

}  // namespace

Status CheckStorePath(const std::string& path) {
  if (path.empty()) return Status::InvalidArgument("the store's path is empty, expected a folder");
  if (path.find('\0') != std::string::npos) {
    return Status::InvalidArgument("store '" + std::string(path.c_str()) +
                                   "': a zero byte follows in its path, expected none");
  }
  const size_t num_bytes = FullPathBytes(path);
  if (num_bytes <= DB::kMaxPathBytes) return Status::Ok();
  return Status::InvalidArgument("store '" + path + "': its full path, links followed, has " +
                                 std::to_string(num_bytes) + " bytes, expected at most " +
                                 std::to_string(DB::kMaxPathBytes) +
                                 ": open a folder with a shorter path");
}

}  // namespace attndb::store
