// Internal to graph: the forms of keys by which a build measures distances, so that it reads a
// quarter of the bytes of float32 and makes the same graph with every instruction set.
//
// Inner products do not obey the triangle inequality: the longest keys would be near to everything.
// Therefore a key x of norm <= r gets sqrt(r^2 - |x|^2) as one more coordinate ("lifted"); then all
// keys have norm r, and the key of largest inner product is the nearest. The coordinate is spread
// over kLiftChannels channels, so that it does not fill the range of the codes.
//
// Shapes:  rows of num_elements + kLiftChannels.
// Errors:  none. Keys are finite.
// Threads: constant once made.
// Source:  reduction of inner products to distances by a coordinate: Bachrach et al. (RecSys 2014).
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_CODES_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_CODES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/thread_pool.h"
#include "kernels/byte_dot.h"
#include "kernels/layout.h"
#include "kernels/planes.h"

namespace attndb::index {

inline constexpr size_t kLiftChannels = 16;

// Calls pool->ParallelFor, or a loop if there is no pool.
template <typename Fn>
void ForParts(ThreadPool* pool, size_t num_parts, const Fn& fn) {
  if (pool != nullptr) return pool->ParallelFor(static_cast<uint32_t>(num_parts), fn);
  for (uint32_t part = 0; part < num_parts; ++part) fn(part);
}

// Keys, centred and rotated (kernels/hadamard.h), with the data to treat queries in the same way.
class TurnedKeys {
 public:
  TurnedKeys(const kernels::RowsView& keys, size_t num_keys, ThreadPool* pool);

  size_t num_keys() const { return num_keys_; }
  size_t num_elements() const { return keys_.num_elements; }
  size_t num_lifted() const { return keys_.num_elements + kLiftChannels; }

  // Writes a key as float32, turned; `centred`: minus the mean of the keys, which does not change
  // the order of one q's scores.
  void LoadKey(size_t key, bool centred, float* row) const;
  void TurnQuery(float* row) const;
  // The value of a lifted key in each of the kLiftChannels channels.
  float lift(size_t key) const { return lifts_[key]; }

 private:
  kernels::RowsView keys_;
  size_t num_keys_;
  std::vector<float> mean_;
  std::vector<float> ones_;
  std::vector<float> signs_;
  std::vector<float> lifts_;
};

// Lifted keys in codes of one scale for all, so that distances among them are integers.
class KeyCodes {
 public:
  KeyCodes(const TurnedKeys& keys, ThreadPool* pool);

  // Inner products of `key` with `others`. The distances of a and b from one c are ordered as
  // norm(a) - 2 a.c and norm(b) - 2 b.c are.
  void Dots(uint32_t key, std::span<const uint32_t> others, int32_t* dots) const {
    kernels::DotBytes(codes_.data() + key * width_, codes_.data(), width_, width_, others.data(),
                      others.size(), dots);
  }
  // The inner product of `key` with itself.
  int32_t norm(uint32_t key) const { return norms_[key]; }

 private:
  size_t width_;
  std::vector<int8_t> codes_;
  std::vector<int32_t> norms_;
};

// Key planes (kernels/planes.h) of some rows, for scans.
class ScanPlanes {
 public:
  // load(i, row) writes row i, `num_channels` float32.
  template <typename Load>
  ScanPlanes(size_t num_rows, size_t num_channels, ThreadPool* pool, const Load& load)
      : ScanPlanes(num_rows, num_channels) {
    ForParts(pool, NumParts(), [&](uint32_t part) {
      std::vector<float> rows(kernels::kPlaneKeys * num_channels_);
      for (size_t block = FirstBlock(part); block < FirstBlock(part + 1); ++block) {
        const size_t first = block * kernels::kPlaneKeys;
        const size_t count =
            num_rows_ - first < kernels::kPlaneKeys ? num_rows_ - first : kernels::kPlaneKeys;
        for (size_t i = 0; i < count; ++i) load(first + i, rows.data() + i * num_channels_);
        EncodeBlock(block, count, rows.data());
      }
    });
  }

  size_t num_rows() const { return num_rows_; }
  size_t num_channels() const { return num_channels_; }
  kernels::PlanesView view() const;

 private:
  ScanPlanes(size_t num_rows, size_t num_channels);

  size_t num_blocks() const { return (num_rows_ + kernels::kPlaneKeys - 1) / kernels::kPlaneKeys; }
  size_t NumParts() const { return (num_blocks() + 127) / 128; }
  size_t FirstBlock(size_t part) const {
    return part * 128 < num_blocks() ? part * 128 : num_blocks();
  }
  void EncodeBlock(size_t block, size_t count, const float* rows);

  size_t num_rows_;
  size_t num_channels_;
  std::vector<uint8_t> high_;
  std::vector<uint8_t> low_;
  std::vector<uint16_t> scales_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_CODES_H_
