// Goal:   of each group the first q heads are given, and K and V as they are.
#include "bench/heads/smaller_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/heads/heads_test_util.h"

namespace attndb::bench {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<HeadSource> Heads() {  // Two kv heads, three q heads each, four channels.
  return *HeadsFromArrays(Array({30, 2, 4}, 1), Array({30, 2, 3}, 2), Array({5, 6, 4}, 3),
                          DType::kFloat32);
}

TEST(SmallerGroupsTest, GivesTheFirstHeadsOfEachGroup) {
  const std::unique_ptr<HeadSource> whole = Heads();
  std::vector<float> all(2 * 6 * 4), whole_k(2 * 8), whole_v(2 * 6);
  ASSERT_TRUE(whole->ReadQueries(0, {26, 28}, all.data()).ok());
  ASSERT_TRUE(whole->ReadKv(0, {26, 28}, whole_k.data(), whole_v.data()).ok());
  for (const size_t group_size : {1u, 2u, 3u}) {
    const auto heads = SmallerGroups(Heads(), static_cast<uint32_t>(group_size));
    ASSERT_TRUE(heads.ok()) << heads.status();
    const LayerSpec layer = (*heads)->info().SpecOfLayers().layers[0];
    EXPECT_EQ(layer.num_q_heads, 2 * group_size);
    EXPECT_EQ(layer.num_kv_heads, 2u);
    std::vector<float> q(2 * 2 * group_size * 4), k(2 * 8), v(2 * 6);
    ASSERT_TRUE((*heads)->ReadQueries(0, {26, 28}, q.data()).ok());
    for (size_t i = 0; i < q.size(); ++i) {
      const size_t group = i / (group_size * 4);
      EXPECT_EQ(q[i], all[group * 3 * 4 + i % (group_size * 4)]);
    }
    ASSERT_TRUE((*heads)->ReadKv(0, {26, 28}, k.data(), v.data()).ok());
    EXPECT_EQ(k, whole_k);
    EXPECT_EQ(v, whole_v);
  }
}

TEST(SmallerGroupsTest, MoreThanAGroupHasAreRefused) {
  EXPECT_THAT(SmallerGroups(Heads(), 4).status().message(),
              HasSubstr("layer 0 has 3 q heads a group, expected 4 or more"));
}

}  // namespace
}  // namespace attndb::bench
