#include "index/pq/pq_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/lane_sum.h"
#include "kernels/convert.h"
#include "kernels/product_codes.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

using kernels::kCodeKeys;

// Queries and keys that the error is measured with: a figure to a few hundredths.
constexpr size_t kErrorQueries = 64;
constexpr size_t kErrorKeys = 1024;

constexpr double kLargestFloat = std::numeric_limits<float>::max();

}  // namespace

PqBuilder::PqBuilder(const PqCodebook& codebook, const PqSource& source)
    : codebook_(codebook), source_(source), rows_(kCodeKeys * codebook.num_channels) {
  const size_t num_entries = kernels::CodeEntries(codebook.bits);
  for (size_t s = 0; s < codebook.num_subspaces; ++s) {
    const std::span<const float> of_subspace(codebook.half_squares.data() + s * num_entries,
                                             num_entries);
    largest_code_sq_ += 2 * double{*std::ranges::max_element(of_subspace)};
  }
}

Result<PqKeys> PqBuilder::Build() {
  PqHeader header;
  header.num_keys = source_.num_keys;
  header.num_channels = static_cast<uint32_t>(codebook_.num_channels);
  header.num_subspaces = static_cast<uint32_t>(codebook_.num_subspaces);
  header.bits = static_cast<uint32_t>(codebook_.bits);
  header.num_pairs = static_cast<uint32_t>(source_.num_pairs);
  const PqLayout layout(header);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::AllocateZeroed(layout.total_bytes));
  std::byte* const to = buffer.data();
  std::ranges::copy(codebook_.centroids, reinterpret_cast<float*>(to + layout.centroids));
  auto* const bounds = reinterpret_cast<float*>(to + layout.bounds);
  auto* const codes = reinterpret_cast<uint8_t*>(to + layout.codes);
  const size_t block_bytes = kernels::CodeBlockBytes(header.num_subspaces, header.bits);
  const size_t num_blocks = kernels::NumWeightBlocks(source_.num_keys);
  for (size_t b = 0; b < num_blocks; ++b) EncodeBlock(b, codes + b * block_bytes, bounds + b);
  const double error = MeasureError(codes);
  if (!(sum_bounds_ + largest_code_sq_ + error <= kLargestFloat)) return PqKeys();
  header.error = static_cast<float>(error);
  EncodePqHeader(header, buffer.span().first(kPqHeaderBytes));
  ATTNDB_ASSIGN_OR_RETURN(
      PqKeys keys,
      PqKeys::Parse(buffer.span(), {header.num_keys, header.num_channels}, "built product codes"));
  keys.buffer_ = std::move(buffer);
  return keys;
}

// The kernel's gains are sums of width + 1 float32 products, and of num_subspaces such sums;
// squares of the code are sums of width. All are products of key and code, or of code and code.
// Terms below the range of float32 may be missing.
void PqBuilder::EncodeBlock(size_t block, uint8_t* codes, float* bound) {
  const size_t num_channels = codebook_.num_channels;
  const size_t first = block * kCodeKeys;
  const size_t count = std::min(kCodeKeys, source_.num_keys - first);
  LoadPqKeys(source_, first, count, rows_.data());
  float gains[kCodeKeys];
  kernels::EncodeProductCodes(codebook_.view(), rows_.data(), num_channels, count, codes, gains);
  const auto num_roundings =
      static_cast<double>(2 * codebook_.width() + codebook_.num_subspaces + 4);
  const double underflow = static_cast<double>(num_channels) * 0x1p-140;
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double norm = Norm({rows_.data() + i * num_channels, num_channels});
    const double residual_sq = std::max(norm * norm - 2 * double{gains[i]}, 0.0);
    const double rounding = num_roundings * 0x1p-23 * (norm * norm + largest_code_sq_) + underflow;
    if (norm <= codebook_.longest) {
      sum_residual_sq_ += residual_sq;
      ++num_usual_;
    }
    largest = std::max(largest, residual_sq + rounding);
    sum_bounds_ += residual_sq + rounding;  // NaN gets lost in a maximum.
  }
  const double largest_norm = std::sqrt(largest) * (1 + 0x1p-22);
  sum_bounds_ += largest_norm;
  *bound = largest_norm <= kLargestFloat ? static_cast<float>(largest_norm) : 0.0f;
}

std::vector<float> PqBuilder::TakeQueries() const {
  const size_t num_channels = codebook_.num_channels;
  const size_t num_rows = source_.queries.num_rows();
  const size_t num_taken = std::min(num_rows, kErrorQueries);
  std::vector<float> queries, q(num_channels), scratch(num_channels);
  for (size_t i = 0; i < num_taken; ++i) {
    const kernels::RowsView all = {source_.queries.q, num_channels, num_channels,
                                   source_.keys.dtype};
    kernels::LoadRows(all, i * num_rows / num_taken, 1, q.data());
    PairChannels(source_.num_pairs, num_channels, 1, q.data(), scratch.data());
    const double norm = Norm(q);
    if (!(norm > 0) || !std::isfinite(norm)) continue;  // Imported queries may be anything.
    for (const float x : q) queries.push_back(static_cast<float>(double{x} / norm));
  }
  return queries;
}

void PqBuilder::FindResidual(const uint8_t* codes, size_t i, float* residual) const {
  LoadPqKeys(source_, i, 1, residual);
  const size_t width = codebook_.width();
  const size_t num_entries = kernels::CodeEntries(codebook_.bits);
  const uint8_t* const block =
      codes + i / kCodeKeys * kernels::CodeBlockBytes(codebook_.num_subspaces, codebook_.bits);
  for (size_t s = 0; s < codebook_.num_subspaces; ++s) {
    const size_t code = kernels::CodeOf(block, codebook_.bits, i % kCodeKeys, s);
    for (size_t j = 0; j < width; ++j) {
      residual[s * width + j] -= codebook_.centroids[(s * width + j) * num_entries + code];
    }
  }
}

double PqBuilder::MeasureError(const uint8_t* codes) const {
  const size_t num_channels = codebook_.num_channels;
  const auto num_keys = static_cast<double>(std::max<size_t>(num_usual_, 1));
  const std::vector<float> queries = TakeQueries();
  if (queries.empty()) {
    return std::sqrt(sum_residual_sq_ / num_keys / static_cast<double>(num_channels));
  }
  const size_t num_tried = std::min(source_.num_keys, kErrorKeys);
  std::vector<float> residual(num_channels);
  double sum = 0;
  size_t num_usual = 0;
  for (size_t i = 0; i < num_tried; ++i) {
    const size_t key = i * source_.num_keys / num_tried;
    LoadPqKeys(source_, key, 1, residual.data());
    if (Norm(residual) > codebook_.longest) continue;
    ++num_usual;
    FindResidual(codes, key, residual.data());
    for (size_t at = 0; at < queries.size(); at += num_channels) {
      const auto score = LaneSum<double>(
          num_channels, [&](size_t d) { return double{queries[at + d]} * double{residual[d]}; });
      sum += score * score;
    }
  }
  const size_t num_scores = std::max<size_t>(num_usual, 1) * (queries.size() / num_channels);
  return std::sqrt(sum / static_cast<double>(num_scores));
}

}  // namespace attndb::index
