// Goal:   keys of one direction are in one cluster, whatever their lengths. No cluster is empty.
//         Few keys, or keys that are alike, are clustered too.
// Method: keys around directions that are known; the assignment of each key against inner products
//         in float64.
#include "index/coarse/spherical_kmeans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/random.h"

namespace attndb::index {
namespace {

constexpr size_t kDim = 32;

kernels::RowsView View(const std::vector<float>& rows) {
  return {rows.data(), kDim, kDim, DType::kFloat32};
}

size_t NumUsed(const KeyClusters& clusters) {
  return std::set<uint16_t>(clusters.numbers.begin(), clusters.numbers.end()).size();
}

// Keys that lie around a mean in as many directions as there are channels, in turn.
std::vector<float> DirectedKeys(size_t count, Random* random) {
  std::vector<float> rows(count * kDim);
  for (size_t i = 0; i < count; ++i) {
    const double length = 3 + 5 * random->NextDouble();
    for (size_t d = 0; d < kDim; ++d) {
      const double direction = d == i % kDim ? length : 0;
      rows[i * kDim + d] = static_cast<float>(20 + direction + 0.05 * random->NextGaussian());
    }
  }
  return rows;
}

TEST(SphericalKMeansTest, KeysOfOneDirectionAreTogether) {
  Random random(3);
  const std::vector<float> rows = DirectedKeys(640, &random);
  const KeyClusters clusters = ClusterDirections(View(rows), 0, 640, {.cluster_keys = 20});
  EXPECT_EQ(NumUsed(clusters), clusters.num_clusters);
  // Clusters begin at keys of every fourth direction; more than one may share a direction, but none
  // holds keys of two that another began with.
  std::vector<std::set<size_t>> directions(clusters.num_clusters);
  for (size_t i = 0; i < 640; ++i) directions[clusters.numbers[i]].insert(i % kDim);
  const size_t num_pure = static_cast<size_t>(
      std::ranges::count_if(directions, [](const auto& of) { return of.size() == 1; }));
  EXPECT_GE(num_pure, 7u);
}

// Runs rounds until nothing changes. Each key is then nearest to the mean direction of its own
// cluster.
TEST(SphericalKMeansTest, EachKeyIsInItsNearestCluster) {
  Random random(5);
  std::vector<float> rows(700 * kDim);
  for (float& x : rows) x = static_cast<float>(random.NextGaussian() + 2);
  const KeyClusters clusters =
      ClusterDirections(View(rows), 100, 600, {.cluster_keys = 16, .num_rounds = 300});
  ASSERT_EQ(clusters.numbers.size(), 600u);
  const size_t num_clusters = clusters.num_clusters;
  EXPECT_LE(num_clusters, 38u);
  EXPECT_EQ(NumUsed(clusters), num_clusters);
  std::vector<double> mean(kDim);
  for (size_t i = 0; i < 600; ++i) {
    for (size_t d = 0; d < kDim; ++d) mean[d] += double{rows[(100 + i) * kDim + d]} / 600;
  }
  const auto centred = [&](size_t i, size_t d) {
    return double{rows[(100 + i) * kDim + d]} - mean[d];
  };
  std::vector<std::vector<double>> centroids(num_clusters, std::vector<double>(kDim));
  for (size_t i = 0; i < 600; ++i) {
    for (size_t d = 0; d < kDim; ++d) centroids[clusters.numbers[i]][d] += centred(i, d);
  }
  for (std::vector<double>& centroid : centroids) {
    double square = 0;
    for (const double x : centroid) square += x * x;
    for (double& x : centroid) x /= std::sqrt(square);
  }
  for (size_t i = 0; i < 600; ++i) {
    const auto product = [&](size_t c) {
      double sum = 0;
      for (size_t d = 0; d < kDim; ++d) sum += centred(i, d) * centroids[c][d];
      return sum;
    };
    double most = -1e300;
    for (size_t c = 0; c < num_clusters; ++c) most = std::max(most, product(c));
    EXPECT_NEAR(product(clusters.numbers[i]), most, 1e-3) << i;
  }
}

TEST(SphericalKMeansTest, EqualKeysAreOneCluster) {
  const std::vector<float> rows(500 * kDim, 1.5f);
  const KeyClusters clusters = ClusterDirections(View(rows), 0, 500, {});
  EXPECT_EQ(clusters.num_clusters, 1u);
  EXPECT_EQ(clusters.numbers, std::vector<uint16_t>(500));
}

TEST(SphericalKMeansTest, FewKeysAreClusteredToo) {
  Random random(7);
  const std::vector<float> rows = DirectedKeys(40, &random);
  for (const size_t count : {1u, 2u, 16u, 17u, 40u}) {
    const KeyClusters clusters = ClusterDirections(View(rows), 0, count, {});
    EXPECT_EQ(clusters.numbers.size(), count);
    EXPECT_GE(clusters.num_clusters, 1u);
    EXPECT_LE(clusters.num_clusters, NumCentroids(count, 16));
    EXPECT_EQ(NumUsed(clusters), clusters.num_clusters);
  }
}

// More centroids than one table of kernels holds, and keys so large that products overflow.
TEST(SphericalKMeansTest, ManyCentroidsAndHugeKeysAreTaken) {
  Random random(9);
  std::vector<float> rows = DirectedKeys(4000, &random);
  const KeyClusters many = ClusterDirections(View(rows), 0, 4000, {.cluster_keys = 8});
  EXPECT_GT(many.num_clusters, 256u);
  EXPECT_EQ(NumUsed(many), many.num_clusters);
  for (float& x : rows) x *= 1e37f;
  const KeyClusters huge = ClusterDirections(View(rows), 0, 4000, {.cluster_keys = 8});
  EXPECT_EQ(NumUsed(huge), huge.num_clusters);
}

}  // namespace
}  // namespace attndb::index
