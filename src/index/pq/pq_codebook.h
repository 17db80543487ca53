// The codebook of product codes (kernels/product_codes.h): centroids for each run of channels of
// the keys of one kv head, found by k-means on some of the keys.
//
// Pairs:   channels that the rotary embedding turns together are put into one subspace: they lie on
//          a circle, which one centroid of both channels describes better than two centroids of
//          one. On SmolLM2's heads the recall of the 100 best rises by up to 4 points at 8 x 8
//          bits, and by up to 15 at 4 x 8.
// Method:  sampled keys are spread evenly over the run. k-means++ runs on up to kSeedingKeys of
//          them, then rounds of assignment and means. A centroid that no key is near to becomes the
//          key that is furthest from its own centroid; where all keys lie on centroids it stays.
//          With fewer keys than centroids, or equal keys, some centroids are equal, and codes name
//          the first of them.
// Outliers: keys of kOutlierNorm times the median norm or more are left out of the sample. One
//          centroid for such a key would stretch the lookup tables of every q until all other keys
//          had one score. Searches score such keys exactly (pq_index.h).
// Bits:    the same for a seed, whatever the number of threads: each subspace is trained by itself,
//          with random numbers of its own. They differ between instruction sets, as roundings do.
// Errors:  kInvalidArgument: no such shape, or channels that are not a multiple of num_subspaces.
//          Keys must be finite (heads with NaN or Inf run `full`).
// Source:  k-means++: Arthur and Vassilvitskii, SODA 2007. Product codes of keys: PQCache
//          (arXiv:2407.12820), section 4.1.
#ifndef ATTNDB_INDEX_PQ_PQ_CODEBOOK_H_
#define ATTNDB_INDEX_PQ_PQ_CODEBOOK_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "kernels/layout.h"
#include "kernels/product_codes.h"
#include "storage/kv/query_rows.h"

namespace attndb::index {

// The source of codes. The caller keeps its memory alive.
struct PqSource {
  kernels::RowsView keys;  // Finite.
  size_t num_keys = 0;
  // Key i is row order[i]; empty: row i.
  std::span<const uint32_t> order;
  // Sampled q rows of the keys' type and row length, by which the error is measured. May be empty.
  storage::QueryRows queries;
  // The rotary embedding turns channels i and i + num_pairs together, for i < num_pairs.
  size_t num_pairs = 0;
};

// Puts channels that are turned together side by side: i and i + num_pairs become 2 i and 2 i + 1;
// others stay. `rows`, of num_channels elements each, are changed in place; scratch has room for
// one row.
void PairChannels(size_t num_pairs, size_t num_channels, size_t num_rows, float* rows,
                  float* scratch);

struct PqOptions {
  size_t num_subspaces = 8;
  size_t bits = 8;
  size_t num_rounds = 8;       // Rounds of k-means; fewer where nothing changes any more.
  size_t num_sampled = 16384;  // Keys that are sampled, at most.
  uint64_t seed = 0x6174746e6462;
};

// Loads the source's keys from order[first] on as float32 with paired channels: rows [count,
// num_channels].
void LoadPqKeys(const PqSource& source, size_t first, size_t count, float* rows);

struct PqCodebook {
  static constexpr float kOutlierNorm = 32;

  kernels::CodebookView view() const {
    return {centroids.data(), half_squares.data(), num_channels, num_subspaces, bits};
  }
  size_t width() const { return num_channels / num_subspaces; }

  size_t num_channels = 0;
  size_t num_subspaces = 0;
  size_t bits = 0;
  std::vector<float> centroids;     // See CodebookView.
  std::vector<float> half_squares;  // See CodebookView.
  // Keys of a larger norm are outliers.
  double longest = std::numeric_limits<double>::infinity();
};

// Trains a codebook. Several threads may train subspaces, each subspace by one thread.
class PqTrainer {
 public:
  static constexpr size_t kSeedingKeys = 2048;

  // Takes the sample. REQUIRES: source.num_keys > 0.
  static Result<PqTrainer> Make(const PqSource& source, const PqOptions& options);

  size_t num_subspaces() const { return options_.num_subspaces; }

  // To be called once for each subspace.
  void TrainSubspace(size_t subspace);

  // The codebook, when all subspaces are trained.
  PqCodebook Take() { return std::move(codebook_); }

 private:
  PqTrainer(const PqSource& source, const PqOptions& options);

  void LeaveOutOutliers();
  void Seed(size_t subspace);
  // Assigns the sample; returns whether any key moved.
  bool Assign(size_t subspace, std::vector<uint8_t>* nearest, std::vector<float>* gains) const;
  void MoveToMeans(size_t subspace, const std::vector<uint8_t>& nearest,
                   const std::vector<float>& gains);
  void SetCentroid(size_t subspace, size_t entry, const float* x);
  const float* Row(size_t i, size_t subspace) const {
    return sample_.data() + i * codebook_.num_channels + subspace * codebook_.width();
  }

  PqOptions options_;
  size_t num_rows_ = 0;
  std::vector<float> sample_;  // [num_rows, num_channels]
  PqCodebook codebook_;
};

// Trains all subspaces, one after the other.
Result<PqCodebook> TrainPqCodebook(const PqSource& source, const PqOptions& options);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_CODEBOOK_H_
