// Goal:   a pool reads more files than it keeps open, from any number of threads, and keeps the
//         most recently read files open.
// Method: small files whose contents are their numbers; a base that counts what is opened.
#include "storage/io/file_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using test::IsOk;
using ::testing::HasSubstr;

constexpr size_t kFiles = 10;
constexpr size_t kMaxOpen = 4;

class FilePoolTest : public ::testing::Test {
 protected:
  FilePoolTest() {
    for (size_t i = 0; i < kFiles; ++i) {
      const auto file = *base_.CreateNew(Name(i));
      const std::vector<std::byte> content(8, std::byte(i));
      ATTNDB_EXPECT_OK(file->Append(content));
      ATTNDB_EXPECT_OK(file->Close());
      files_.push_back(*pool_.OpenForRead(Name(i)));
    }
    counting_.SetPlan({});
  }

  static std::string Name(size_t i) { return "file" + std::to_string(i); }
  void ExpectContent(size_t i) const {
    std::vector<std::byte> content(8);
    ATTNDB_ASSERT_OK(files_[i]->ReadAt(0, content));
    EXPECT_EQ(content, std::vector<std::byte>(8, std::byte(i)));
  }

  test::MemoryFileSystem base_;
  test::FaultFileSystem counting_{&base_};
  FilePool pool_{&counting_, kMaxOpen};
  std::vector<std::unique_ptr<RandomAccessFile>> files_;
};

TEST_F(FilePoolTest, MoreFilesAreReadThanAreKeptOpen) {
  EXPECT_EQ(pool_.num_open(), kMaxOpen);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kFiles; ++i) ExpectContent(i);
  }
  EXPECT_EQ(pool_.num_open(), kMaxOpen);
  EXPECT_EQ(*files_[3]->Size(), 8u);
}

TEST_F(FilePoolTest, ThoseReadLastStayOpen) {
  for (size_t i = 0; i < kMaxOpen; ++i) ExpectContent(i);
  const uint64_t num_before = counting_.num_operations();
  for (size_t i = 0; i < kMaxOpen; ++i) ExpectContent(i);
  EXPECT_EQ(counting_.num_operations(), num_before + kMaxOpen);  // A read each, and no open.
}

TEST_F(FilePoolTest, AFileThatIsClosedLeavesItsPlace) {
  files_.pop_back();
  EXPECT_EQ(pool_.num_open(), kMaxOpen - 1);
  files_.clear();
  EXPECT_EQ(pool_.num_open(), 0u);
}

TEST_F(FilePoolTest, AFileThatIsGoneIsNotFoundOnceItIsOpenedAgain) {
  EXPECT_THAT(pool_.OpenForRead("none").status(),
              FailsWith(StatusCode::kNotFound, HasSubstr("none")));
  ATTNDB_ASSERT_OK(pool_.Remove(Name(0)));  // It was the first, and is not open any more.
  std::vector<std::byte> content(8);
  EXPECT_THAT(files_[0]->ReadAt(0, content), FailsWith(StatusCode::kNotFound, HasSubstr(Name(0))));
  ATTNDB_ASSERT_OK(pool_.Remove(Name(kFiles - 1)));  // It is open.
  ExpectContent(kFiles - 1);
}

TEST_F(FilePoolTest, ManyThreadsReadAtOnce) {
  std::vector<std::thread> threads;
  for (size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (size_t i = 0; i < 200; ++i) ExpectContent((first + i * 3) % kFiles);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool_.num_open(), kMaxOpen);
}

TEST_F(FilePoolTest, TheLimitIsAQuarterOfThatOfTheProcess) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const rlim_t num_files : {rlim_t{63}, rlim_t{68}, rlim_t{71}, rlim_t{400}, rlim_t{5000}}) {
    rlimit limit = before;
    limit.rlim_cur = std::min(num_files, before.rlim_max);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const size_t found = FilePool::DefaultLimit();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(found, std::clamp<rlim_t>(limit.rlim_cur / 4, 16, 1024)) << num_files;
  }
}

}  // namespace
}  // namespace attndb::storage
