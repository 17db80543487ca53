// A store whose files and lanes stop where a test says so, and continue when the test says so.
//
// Threads: as the store's, where a test says so.
#ifndef ATTNDB_API_STOPPED_DB_TEST_UTIL_H_
#define ATTNDB_API_STOPPED_DB_TEST_UTIL_H_

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "api/database.h"
#include "api/db_access.h"
#include "api/db_test_util.h"
#include "testing/event.h"
#include "testing/fault_file_system.h"

namespace attndb::test {

// Returns when the lane is stuck, until `release` is set. Earlier jobs of the lane are done by
// then.
inline void StopLane(const DB& db, size_t lane, Event* release) {
  Event stuck;
  internal::DbAccess::database(db)->store()->background()->Add(
      lane, {.run = [&stuck, release](derived::Lanes::Control*) {
        stuck.Set();
        release->Await();
        return Status::Ok();
      }});
  stuck.Await();
}

// A store with the files of `files_`.
class StoppedDBFixture : public DBFixture {
 protected:
  explicit StoppedDBFixture(DBOptions options)
      : DBFixture(options.background_builds), options_(std::move(options)) {
    OpenWithFiles();
  }
  ~StoppedDBFixture() override { db_.reset(); }  // While its files exist.

  // Closes the store first.
  void OpenWithFiles() {
    db_.reset();
    Result<std::shared_ptr<internal::Database>> database =
        internal::Database::Open(store(), options_, &files_);
    ATTNDB_EXPECT_OK(database.status());
    db_.emplace(internal::DbAccess::Wrap(*std::move(database)));
  }
  // Appends random tokens to the session and to `all`, without their attention.
  void Append(Session* session, Tokens* all, size_t num_tokens, uint64_t seed) {
    const Tokens more = ToyModel::Tokens(num_tokens, seed);
    ATTNDB_EXPECT_OK(AppendTokens(session, more, nullptr));
    *all = Concat(*all, more);
  }
  // The number of tokens that the context uses of each of its segments.
  std::vector<uint64_t> SegmentTokens(std::string_view context) {
    std::vector<uint64_t> sizes;
    const Result<ContextInfo> info = db_->Describe(context);
    for (const SegmentInfo& segment : info->segments) sizes.push_back(segment.num_tokens_used);
    return sizes;
  }

  const DBOptions options_;
  FaultFileSystem files_{storage::PosixFileSystem()};
  Event release_;
};

}  // namespace attndb::test

#endif  // ATTNDB_API_STOPPED_DB_TEST_UTIL_H_
