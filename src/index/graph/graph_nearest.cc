#include "index/graph/graph_nearest.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/aligned_buffer.h"
#include "common/checked_math.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

// Queries of a part, and keys of a tile: codes of a tile stay in the second cache for all queries
// of a part, and so do their scores. Tiles of 2048 keys took 1.4 times as long.
constexpr size_t kPartQueries = 32;
constexpr size_t kTileKeys = 512;
static_assert(kTileKeys % kernels::kOffsetKeys == 0);

// The best of one query so far, and some more, in the order of their numbers: so the selection's
// rule for equal scores, the first, is the lowest number.
class BestList {
 public:
  explicit BestList(size_t length)
      : length_(length), scores_(Room()), ids_(Room()), kept_(Room() + kernels::kSelectSlack) {}

  void Clear() {
    size_ = 0;
    threshold_ = -std::numeric_limits<float>::infinity();
  }

  void AddTile(const float* scores, size_t count, size_t first, std::byte* scratch) {
    uint32_t* const found = kept_.data();
    const size_t num_found = size_ == 0
                                 ? kernels::SelectTopK(scores, count, length_, found, scratch)
                                 : kernels::SelectRange(scores, count, threshold_, found);
    for (size_t i = 0; i < num_found; ++i) {
      scores_[size_ + i] = scores[found[i]];
      ids_[size_ + i] = static_cast<uint32_t>(first + found[i]);
    }
    size_ += num_found;
    const bool is_open = threshold_ == -std::numeric_limits<float>::infinity();
    if (size_ >= (is_open ? 1 : kCutFactor) * length_) Cut(scratch);
  }

  void Write(uint32_t* ids, std::byte* scratch) {
    Cut(scratch);
    const auto end = kept_.begin() + static_cast<ptrdiff_t>(size_);
    std::iota(kept_.begin(), end, 0u);
    std::stable_sort(kept_.begin(), end,
                     [&](uint32_t a, uint32_t b) { return scores_[a] > scores_[b]; });
    for (size_t i = 0; i < length_; ++i) ids[i] = i < size_ ? ids_[kept_[i]] : kNoKey;
  }

  static size_t ScratchBytes(size_t length) {
    return kernels::SelectTopKScratchBytes(kCutFactor * length + kTileKeys);
  }

 private:
  // A selection costs about as much as the pushes between two of them.
  static constexpr size_t kCutFactor = 4;

  size_t Room() const { return kCutFactor * length_ + kTileKeys; }

  void Cut(std::byte* scratch) {
    if (size_ < length_) return;
    size_ = kernels::SelectTopK(scores_.data(), size_, length_, kept_.data(), scratch);
    for (size_t i = 0; i < size_; ++i) {
      scores_[i] = scores_[kept_[i]];
      ids_[i] = ids_[kept_[i]];
    }
    threshold_ =
        *std::min_element(scores_.begin(), scores_.begin() + static_cast<ptrdiff_t>(size_));
  }

  size_t length_;
  size_t size_ = 0;
  float threshold_ = 0;
  std::vector<float> scores_;
  std::vector<uint32_t> ids_;
  std::vector<uint32_t> kept_;
};

// The work of a thread on one part.
class PartScan {
 public:
  explicit PartScan(const NearestCall& call, size_t length)
      : call_(call),
        channels_(call.planes->num_channels()),
        rows_(channels_),
        codes_(kPartQueries * channels_),
        queries_(kPartQueries),
        limits_(kPartQueries),
        lists_(kPartQueries, BestList(length)),
        scores_(kPartQueries * kTileKeys),
        scratch_(BestList::ScratchBytes(length) + kBufferAlignment) {}

  void Run(size_t first, size_t count, size_t length, uint32_t* ids) {
    for (size_t i = 0; i < count; ++i) {
      call_.load(first + i, rows_.data());
      int8_t* const codes = codes_.data() + i * channels_;
      kernels::EncodePlaneQuery(rows_.data(), channels_, codes, &queries_[i].scale,
                                &queries_[i].code_sum);
      queries_[i].codes = codes;
      limits_[i] = call_.limit == nullptr ? call_.planes->num_rows() : call_.limit(first + i);
      lists_[i].Clear();
    }
    const size_t num_keys =
        *std::max_element(limits_.begin(), limits_.begin() + static_cast<ptrdiff_t>(count));
    for (size_t key = 0; key < num_keys; key += kTileKeys) {
      ScanTile(key, std::min(kTileKeys, num_keys - key), count);
    }
    for (size_t i = 0; i < count; ++i) lists_[i].Write(ids + i * length, scratch());
  }

 private:
  void ScanTile(size_t key, size_t tile, size_t num_queries) {
    kernels::ScanPlanes(call_.planes->view(), 8, key, tile, queries_.data(), num_queries,
                        scores_.data(), kTileKeys);
    for (size_t q = 0; q < num_queries; ++q) {
      if (limits_[q] <= key) continue;
      const size_t seen = std::min(tile, limits_[q] - key);
      lists_[q].AddTile(scores_.data() + q * kTileKeys, seen, key, scratch());
    }
  }

  std::byte* scratch() {
    const auto at = reinterpret_cast<uintptr_t>(scratch_.data());
    return scratch_.data() + (RoundUp(at, kBufferAlignment) - at);
  }

  const NearestCall& call_;
  size_t channels_;
  std::vector<float> rows_;
  std::vector<int8_t> codes_;
  std::vector<kernels::PlaneQuery> queries_;
  std::vector<size_t> limits_;
  std::vector<BestList> lists_;
  std::vector<float> scores_;
  std::vector<std::byte> scratch_;
};

}  // namespace

NearestLists FindNearest(const NearestCall& call) {
  NearestLists lists;
  lists.length = std::min(call.length, call.planes->num_rows());
  if (lists.length == 0) return lists;
  lists.ids.resize(call.num_queries * lists.length);
  const size_t num_parts = (call.num_queries + kPartQueries - 1) / kPartQueries;
  ForParts(call.pool, num_parts, [&](uint32_t part) {
    // Relaxed: this thread reads no data that the cancelling thread has written.
    if (call.cancel != nullptr && call.cancel->load(std::memory_order_relaxed)) return;
    const size_t first = part * kPartQueries;
    PartScan scan(call, lists.length);
    scan.Run(first, std::min(kPartQueries, call.num_queries - first), lists.length,
             lists.ids.data() + first * lists.length);
  });
  return lists;
}

}  // namespace attndb::index
