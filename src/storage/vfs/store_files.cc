#include "storage/vfs/store_files.h"

#include <optional>
#include <utility>

#include "storage/vfs/field_check.h"
#include "storage/vfs/manifest.h"

namespace attndb::storage {
namespace {

// A file that the catalog names and that is missing is damage.
Result<uint64_t> SizeOfNamed(FileSystem* file_system, const std::string& path) {
  Result<uint64_t> bytes = file_system->FileSize(path);
  if (bytes.status().code() != StatusCode::kNotFound) return bytes;
  return Status::Corruption(bytes.status().message());
}

}  // namespace

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

Status CheckObjectFiles(FileSystem* file_system, const std::string& dir, const ObjectName& name,
                        uint64_t file_bytes) {
  const std::string data = JoinPath(dir, FileNameOf(name, ObjectFile::kData));
  const std::string manifest = JoinPath(dir, FileNameOf(name, ObjectFile::kManifest));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t data_bytes, SizeOfNamed(file_system, data));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t manifest_bytes, SizeOfNamed(file_system, manifest));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(data, "length of the file and its manifest",
                                     data_bytes + manifest_bytes, file_bytes));
  return ExpectEqual(manifest, "length of the file", manifest_bytes, ManifestBytes(data_bytes));
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
