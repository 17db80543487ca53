// Finds the file of a segment by the tenant's number of the segment.
//
// Threads: stateless.
#ifndef ATTNDB_API_SEGMENT_FILE_TEST_UTIL_H_
#define ATTNDB_API_SEGMENT_FILE_TEST_UTIL_H_

#include <cstdint>
#include <string>

#include "attndb/stats.h"
#include "store/catalog/sqlite.h"
#include "store/object_path.h"

namespace attndb::test {

// Path of the data file of a segment of tenant "default". `store`: the store's folder.
inline std::string SegmentFile(const std::string& store, const SegmentInfo& segment) {
  using store::SqliteDatabase;
  const auto catalog =
      SqliteDatabase::Open(store + "/catalog.db", SqliteDatabase::Mode::kReadOnly).value();
  store::Query query = catalog->Select(
      "SELECT n.segment FROM segment_numbers n JOIN tenants t ON t.id = n.tenant "
      "WHERE t.name = 'default' AND n.number = ?",
      segment.segment_id);
  const bool found = query.Step().value();
  const auto id = static_cast<uint64_t>(found ? query.Int(0) : 0);
  return store + "/" + store::ObjectPath({.segment_id = id});
}

}  // namespace attndb::test

#endif  // ATTNDB_API_SEGMENT_FILE_TEST_UTIL_H_
