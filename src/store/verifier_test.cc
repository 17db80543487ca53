// Goal:   a byte that is not what was stored is found, and its segment quarantined; a whole store
//         has no findings.
// Method: a byte of a segment's file is turned over.
#include "store/verifier.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

class VerifierTest : public StoreTest {};

TEST_F(VerifierTest, ATurnedByteIsFoundAndItsSegmentQuarantined) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport whole, store_->verifier()->Verify("t", {}));
  EXPECT_TRUE(whole.damages.empty());
  EXPECT_EQ(whole.num_segments, 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, store_->admin()->Describe("t", "a"));
  const std::string file = dir_.File(
      "store/" + ObjectPath({.segment_id = static_cast<uint64_t>(info.segments[0].segment_id)}));
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
  const int turned = bytes.seekg(middle).get() ^ 0x10;
  bytes.seekp(middle).put(static_cast<char>(turned));
  bytes.close();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, store_->verifier()->Verify("t", {}));
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].segment_id, info.segments[0].segment_id);
  EXPECT_EQ(report.damages[0].contexts, std::vector<std::string>{"a"});
  EXPECT_TRUE(store_->admin()->Describe("t", "a")->damaged);
  EXPECT_FALSE(store_->admin()->Describe("t", "b")->damaged);
}

}  // namespace
}  // namespace attndb::store
