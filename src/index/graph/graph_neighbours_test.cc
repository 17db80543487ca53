// Goal:   the most frequent neighbours of a key are counted, and those that no chosen one hides are
//         chosen.
// Method: against counts in a map, and the rule as it reads: each candidate against each chosen
//         one.
#include "index/graph/graph_neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace attndb::index {
namespace {

constexpr size_t kChannels = 32;

std::vector<float> RandomKeys(size_t num_keys, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> keys(num_keys * kChannels);
  for (float& x : keys) x = normal(*random);
  return keys;
}

int64_t Farness(const KeyCodes& codes, uint32_t a, uint32_t b) {
  int32_t dot = 0;
  codes.Dots(a, {&b, 1}, &dot);
  return int64_t{codes.norm(a)} - 2 * int64_t{dot} + codes.norm(b);
}

std::vector<uint32_t> ChooseOneByOne(const KeyCodes& codes, uint32_t key, size_t max_kept,
                                     std::vector<uint32_t> candidates) {
  std::ranges::sort(candidates, {},
                    [&](uint32_t c) { return std::pair(Farness(codes, c, key), c); });
  std::vector<uint32_t> kept, hidden;
  for (const uint32_t c : candidates) {
    const bool is_hidden = std::ranges::any_of(
        kept, [&](uint32_t r) { return Farness(codes, r, c) < Farness(codes, key, c); });
    if (kept.size() < max_kept) (is_hidden ? hidden : kept).push_back(c);
  }
  for (size_t i = 0; i < hidden.size() && kept.size() < max_kept; ++i) kept.push_back(hidden[i]);
  return kept;
}

TEST(GraphNeighboursTest, ChoosesThoseThatNoneHides) {
  std::mt19937 random(1);
  constexpr size_t kKeys = 300;
  std::vector<float> keys = RandomKeys(kKeys, &random);
  // Equal keys, some of them zero: ties go to the lowest id.
  for (size_t i = 0; i < 20; ++i)
    std::copy_n(keys.begin(), kChannels, &keys[(100 + i) * kChannels]);
  std::fill_n(keys.begin() + 200 * kChannels, 20 * kChannels, 0.0f);
  const TurnedKeys turned({keys.data(), kChannels, kChannels, DType::kFloat32}, kKeys, nullptr);
  const KeyCodes codes(turned, nullptr);
  NeighbourChooser chooser(&codes);
  for (const uint32_t key : {0u, 1u, 105u, 210u, 299u}) {
    for (const size_t num_candidates : {0u, 1u, 5u, 60u, 299u}) {
      std::vector<uint32_t> candidates;
      for (uint32_t other = 0; other < kKeys; ++other) {
        if (other != key) candidates.push_back(other);
      }
      std::ranges::shuffle(candidates, random);
      candidates.resize(num_candidates);
      for (const size_t max_kept : {1u, 4u, 22u, 1000u}) {
        EXPECT_EQ(chooser.Choose(key, max_kept, candidates),
                  ChooseOneByOne(codes, key, max_kept, candidates))
            << key << " " << num_candidates << " " << max_kept;
      }
    }
  }
}

TEST(GraphNeighboursTest, FindsWhatStandsBesideAKeyMostOften) {
  std::mt19937 random(2);
  constexpr size_t kKeys = 1000;
  for (const size_t length : {1u, 20u, 100u}) {
    for (const size_t num_lists : {1u, 2u, 10u, 64u}) {
      NearestLists nearest;
      nearest.length = length;
      std::vector<uint32_t> lists;
      constexpr uint32_t kKey = 7;
      for (uint32_t list = 0; list < num_lists; ++list) {
        lists.push_back(list);
        std::vector<uint32_t> ids = {kKey};
        while (ids.size() < length) {
          // Low ids more often.
          const auto id = static_cast<uint32_t>(random() % kKeys * (random() % kKeys) / kKeys);
          if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
        }
        std::ranges::shuffle(ids, random);
        nearest.ids.insert(nearest.ids.end(), ids.begin(), ids.end());
      }
      std::map<uint32_t, std::pair<int, size_t>> counts;  // How often, negative; and where first.
      for (size_t i = 0; i < nearest.ids.size(); ++i) {
        --counts.try_emplace(nearest.ids[i], 0, i).first->second.first;
      }
      counts.erase(kKey);
      std::vector<uint32_t> expected;
      for (const auto& [id, count] : counts) expected.push_back(id);
      std::ranges::sort(expected, {}, [&](uint32_t id) { return counts.at(id); });
      expected.resize(std::min<size_t>(expected.size(), 200));
      ListCompanions companions(kKeys);
      std::vector<uint32_t> found;
      for (int again = 0; again < 2; ++again) {  // Nothing is left of the first time.
        companions.Find(nearest, lists, kKey, &found);
        std::ranges::sort(found);
        std::ranges::sort(expected);
        EXPECT_EQ(found, expected) << length << " " << num_lists;
      }
    }
  }
}

}  // namespace
}  // namespace attndb::index
