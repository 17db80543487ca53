// Goal:   each kind that this version has gives the same object whether it was built in memory or
//         written and read back, has nothing for heads with NaN, and knows its size.
// Method: a segment of random rows; all of BuiltinKinds, so that a new kind is tested by its line
//         in the list.
#include "derived/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "derived/derived_test_util.h"
#include "derived/object_files.h"
#include "storage/kv/segment_writer.h"
#include "testing/kv_data.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"

namespace attndb::derived {
namespace {

constexpr uint64_t kTokens = 2100;
constexpr uint32_t kDim = 32;

// One layer of two kv heads, the second with a NaN in K.
class KindsTest : public ::testing::TestWithParam<size_t> {
 protected:
  KindsTest() {
    ATTNDB_EXPECT_OK(fs_.CreateDir("segments"));
    test::SegmentData data =
        test::RandomSegment({.shape = test::UniformShape(DType::kFloat16, 1, {2, kDim, kDim}),
                             .num_tokens = kTokens,
                             .num_queries = 64},
                            &random_);
    test::SetNan({DType::kFloat16, kTokens, kDim}, 5, 3, data.layers[0][1].k.data());
    test::DataSource source(&data, kTokens);
    const auto written = storage::WriteSegment(
        {.file_system = &fs_, .dir = "segments", .identity = data.identity}, &source);
    EXPECT_THAT(written, test::IsOk());
    segment_ =
        *storage::Segment::Open(&fs_, "segments", {data.identity, written->root_hash}, &budget_);
    LayerSpec layer;
    layer.num_kv_heads = 2;
    layer.num_q_heads = 6;
    layer.head_dim = layer.v_head_dim = kDim;
    spec_ = ModelSpec::Uniform(1, layer, DType::kFloat16, "test");
  }

  // Writes the object and opens it.
  Result<std::shared_ptr<const storage::Companion>> Write() {
    ATTNDB_ASSIGN_OR_RETURN(const auto writer, files_.Create(*segment_, kind(), 1, nullptr));
    ATTNDB_RETURN_IF_ERROR(kind().Write(*segment_, spec_, &pool_, writer.get(), [](LayerId) {}));
    ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenObject written, writer->Finish());
    file_bytes_ = written.object_bytes;
    return files_.Open(*segment_, kind(), {kind().traits().object, 1, 0, written.root_hash});
  }
  const Kind& kind() const { return *kinds_.all()[GetParam()]; }

  Random random_{test::SeedOr(3)};
  test::MemoryFileSystem fs_;
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  const ObjectFiles files_{&fs_, "segments", {}};
  const Kinds kinds_ = BuiltinKinds();
  std::shared_ptr<const storage::Segment> segment_;
  ModelSpec spec_;
  ThreadPool pool_{2};
  uint64_t file_bytes_ = 0;
};

bool HasAny(const Head& head) {
  return head.estimates != nullptr || head.index != nullptr || head.value_planes != nullptr ||
         head.value_means != nullptr || head.sums != nullptr || head.ranking != nullptr;
}

TEST_P(KindsTest, BuiltAndReadHeadsAreOfTheSameSort) {
  ASSERT_TRUE(kind().MayHave(kTokens));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const std::vector<Head> built,
      kind().BuildLayer(*segment_, 0, spec_.layers[0], {.pool = &pool_, .cancel = nullptr}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto object, Write());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<Head> read,
                              kind().ReadLayer(*object, *segment_, 0, spec_.layers[0]));
  ASSERT_EQ(built.size(), 2u);
  ASSERT_EQ(read.size(), 2u);
  for (const std::vector<Head>* heads : {&built, &read}) {
    EXPECT_TRUE(HasAny((*heads)[0]));
    EXPECT_FALSE(HasAny((*heads)[1])) << "it has a NaN";
  }
  EXPECT_EQ(built[0].estimates != nullptr, read[0].estimates != nullptr);
  EXPECT_EQ(built[0].index != nullptr, read[0].index != nullptr);
  EXPECT_EQ(built[0].value_planes != nullptr, read[0].value_planes != nullptr);
  EXPECT_EQ(built[0].value_means != nullptr, read[0].value_means != nullptr);
  EXPECT_EQ(built[0].sums != nullptr, read[0].sums != nullptr);
  ASSERT_EQ(built[0].ranking != nullptr, read[0].ranking != nullptr);
  if (built[0].ranking != nullptr) {
    EXPECT_TRUE(std::ranges::equal(built[0].ranking->rows, read[0].ranking->rows));
  }
  if (built[0].index == nullptr) return;
  EXPECT_EQ(built[0].index->num_keys(), read[0].index->num_keys());
}

TEST_P(KindsTest, SizesAreKnownBefore) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto object, Write());
  const LayerSpec& layer = spec_.layers[0];
  const uint64_t head_bytes = kind().HeadBytes(*segment_, 0, layer);
  EXPECT_LE(head_bytes * 2, kind().MemoryBytes(*segment_, 0, layer));
  EXPECT_LE(file_bytes_, kind().ObjectBytes(*segment_, spec_) + (uint64_t{64} << 10));
  EXPECT_GE(2 * file_bytes_, head_bytes);
}

TEST_P(KindsTest, NamesAreFound) {
  EXPECT_EQ(&kinds_.ForUse(kind().traits().use), &kind());
  EXPECT_EQ(kinds_.FindObject(kind().traits().object), &kind());
  for (const std::string& former : kind().traits().former) {
    EXPECT_EQ(kinds_.FindObject(former), nullptr);
  }
  EXPECT_TRUE(storage::IsKindName(kind().traits().object));
}

TEST_P(KindsTest, RunsOfItsFewestTokensHaveIt) {
  const uint64_t fewest = kind().traits().min_tokens;
  EXPECT_TRUE(kind().MayHave(fewest));
  EXPECT_FALSE(kind().MayHave(fewest - 1));
}

TEST(BuiltinKinds, AreAllThatPlansCanName) {
  std::vector<std::string> expected = {"key_planes",     "value_planes", "value_means",
                                       "static_prefill", "clusters",     "graph",
                                       "roargraph",      "graph_head",   "roargraph_head"};
  for (const char* subspaces : {"2", "4", "8", "16", "32"}) {
    for (const char* bits : {"4", "6", "8"}) {
      expected.push_back(std::string("pq_") + subspaces + "x" + bits);
    }
  }
  for (const char* keys : {"8", "16", "32", "64"}) expected.push_back(std::string("quest_") + keys);
  for (const char* keys : {"32", "64", "128", "256", "512"}) {
    for (const char* representatives : {"1", "2", "4", "8"}) {
      expected.push_back(std::string("infllm_") + keys + "x" + representatives);
    }
  }
  for (const char* keys : {"16", "32", "64"}) expected.push_back(std::string("wave_") + keys);
  const Kinds kinds = BuiltinKinds();
  std::vector<std::string> uses;
  for (const auto& kind : kinds.all()) uses.push_back(kind->traits().use);
  EXPECT_THAT(uses, ::testing::UnorderedElementsAreArray(expected));
}

// A set of kinds has a bit for each.
TEST(BuiltinKinds, AreNoMoreThanASetHolds) {
  Kinds kinds;
  const auto add = [&] {
    kinds.Add(std::make_unique<test::FirstBytesKind>(
        test::FirstBytesKind::Of("kind_" + std::to_string(kinds.size()))));
  };
  while (kinds.size() < Kinds::kMost) add();
  EXPECT_DEATH(add(), "kMost");
}

INSTANTIATE_TEST_SUITE_P(Builtin, KindsTest, ::testing::Range(size_t{0}, BuiltinKinds().size()),
                         [](const auto& test) {
                           return BuiltinKinds().all()[test.param]->traits().object;
                         });

}  // namespace
}  // namespace attndb::derived
