#include "testing/store_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "attndb/context_name.h"

namespace attndb::test {

uint64_t NumFilesIn(const std::string& dir) {
  const std::filesystem::directory_iterator files(dir);
  return static_cast<uint64_t>(std::count_if(
      begin(files), end(files), [](const auto& file) { return file.is_regular_file(); }));
}

Result<std::map<int64_t, uint64_t>> SegmentBytes(const DB& db) {
  std::map<int64_t, uint64_t> bytes_of;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> infos, db.List());
  for (const ContextInfo& info : infos) {
    const std::string label = IdName(info.id);
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo detail, db.Describe(label));
    for (const SegmentInfo& segment : detail.segments) {
      uint64_t bytes = segment.file_bytes;
      for (const CompanionInfo& companion : segment.companions) bytes += companion.file_bytes;
      bytes_of[segment.segment_id] = bytes;
    }
  }
  return bytes_of;
}

}  // namespace attndb::test
