// Real segments, small and in memory, made when they are first asked for.
//
// Threads: thread-compatible.
#ifndef ATTNDB_TESTING_SMALL_SEGMENTS_H_
#define ATTNDB_TESTING_SMALL_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <memory>

#include "common/random.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"
#include "testing/memory_file_system.h"

namespace attndb::test {

class SmallSegments {
 public:
  static constexpr uint64_t kTokens = 20;  // Each segment has as many.

  explicit SmallSegments(uint64_t seed);

  std::shared_ptr<storage::Segment> Get(uint64_t id);

 private:
  MemoryFileSystem files_;
  Random random_;
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  std::map<uint64_t, std::shared_ptr<storage::Segment>> segments_;
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_SMALL_SEGMENTS_H_
