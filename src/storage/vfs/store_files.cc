#include "storage/vfs/store_files.h"

#include <optional>
#include <utility>

namespace attndb::storage {

Result<std::vector<std::string>> ListOrphans(
    FileSystem* file_system, const std::string& dir,
    const std::function<bool(const ObjectName&)>& is_known) {
  ATTNDB_ASSIGN_OR_RETURN(std::vector<std::string> names, file_system->List(dir));
  std::erase_if(names, [&](const std::string& name) {
    const std::optional<ParsedFileName> file = ParseFileName(name);
    return !file || (!file->temporary && is_known(file->name));
  });
  return names;
}

Status RemoveObject(FileSystem* file_system, const std::string& dir, const ObjectName& name) {
  for (const ObjectFile file : {ObjectFile::kManifest, ObjectFile::kData}) {
    Status status = file_system->Remove(JoinPath(dir, FileNameOf(name, file)));
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  }
  return Status::Ok();
}

Status RemoveSegment(FileSystem* file_system, const std::string& dir, uint64_t segment_id) {
  return RemoveObject(file_system, dir, ObjectName{.segment_id = segment_id});
}

}  // namespace attndb::storage
