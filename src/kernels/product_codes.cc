#include "kernels/product_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/check.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels {
namespace {

constexpr double kLargestWord = 65535.0;

// Rounded, and within 16 bits; 0 of NaN.
uint16_t ToWord(double x) {
  return x > 0 ? static_cast<uint16_t>(std::min(x, kLargestWord) + 0.5) : uint16_t{0};
}

}  // namespace

LookupTables BuildLookupTables(const CodebookView& codebook, const float* q, size_t q_stride,
                               size_t num_q_rows, std::byte* entries, TableRow* rows) {
  ATTNDB_DCHECK(IsCodebook(codebook));
  Kernels().product_codes->build_lookup_tables(codebook, q, q_stride, num_q_rows, entries, rows);
  const float deviation = std::sqrt(static_cast<float>(codebook.num_subspaces) / 12.0f);
  for (size_t r = 0; r < num_q_rows; ++r) rows[r].rounding_deviation = rows[r].scale * deviation;
  return {entries, rows, num_q_rows};
}

void ScanProductCodes(const ProductCodesView& codes, size_t first_key, size_t num_keys,
                      const LookupTables& tables, float* scores, size_t scores_stride) {
  ATTNDB_DCHECK(IsCodeShape(codes.num_subspaces, codes.bits));
  Kernels().product_codes->scan_product_codes(codes, first_key, num_keys, tables, scores,
                                              scores_stride);
}

WeightRow MapWeights(const TableRow& row, float logit_scale, float reference) {
  const double scale = double{logit_scale};
  const double slope = kWordsOfNat * scale * double{row.scale};
  double top = kWordOfOne + kWordsOfNat * (scale * double{row.max_score} - double{reference});
  uint32_t max_sum = row.max_sum;
  if (top > kLargestWeight && slope > 0) {  // Sums that all have the largest weight are one.
    const double skipped =
        std::min(static_cast<double>(max_sum), std::floor((top - kLargestWeight) / slope));
    max_sum -= static_cast<uint32_t>(skipped);
    top -= skipped * slope;
  }
  WeightRow map;
  map.max_sum = static_cast<uint16_t>(max_sum);
  // Lifts all sums to 16 bits if that is enough for the slope; more where slopes are steep, of
  // which the last 2^15 bits are more than the range of weights.
  map.spread = 1;
  while (map.spread < 0x8000 && (2 * map.spread * max_sum <= 0xffff || map.spread < slope)) {
    map.spread = static_cast<uint16_t>(2 * map.spread);
  }
  map.limit = static_cast<uint16_t>(std::min(max_sum, 0xffffu / map.spread));
  map.slope = ToWord(slope / map.spread * 0x1p16);
  map.top = ToWord(top);
  return map;
}

void WeighProductCodes(const ProductCodesView& codes, size_t first_key, size_t num_keys,
                       const LookupTables& tables, const WeightRow* maps, const CodeWeights& out) {
  ATTNDB_DCHECK(IsCodeShape(codes.num_subspaces, codes.bits));
  ATTNDB_DCHECK(first_key % kCodeKeys == 0);
  ATTNDB_DCHECK(out.maxima != nullptr || out.maxima_sums == nullptr);
  Kernels().product_codes->weigh_product_codes(codes, first_key, num_keys, tables, maps, out);
}

void FindNearest(const CodebookView& codebook, size_t subspace, const float* rows, size_t stride,
                 size_t num_keys, uint8_t* nearest, float* gains) {
  ATTNDB_DCHECK(subspace < codebook.num_subspaces);
  ATTNDB_DCHECK(codebook.num_channels % codebook.num_subspaces == 0);
  const size_t width = codebook.num_channels / codebook.num_subspaces;
  const size_t num_entries = CodeEntries(codebook.bits);
  Kernels().product_codes->find_nearest(codebook.centroids + subspace * width * num_entries,
                                        codebook.half_squares + subspace * num_entries, width,
                                        num_entries, rows, stride, num_keys, nearest, gains);
}

void LowerDistances(const float* keys, size_t width, size_t num_blocks, const float* centroid,
                    float* distances) {
  Kernels().product_codes->lower_distances(keys, width, num_blocks, centroid, distances);
}

void EncodeProductCodes(const CodebookView& codebook, const float* rows, size_t stride,
                        size_t num_keys, uint8_t* block, float* gains) {
  ATTNDB_DCHECK(IsCodebook(codebook));
  ATTNDB_DCHECK(num_keys > 0 && num_keys <= kCodeKeys);
  const size_t width = codebook.num_channels / codebook.num_subspaces;
  std::memset(block, 0, CodeBlockBytes(codebook.num_subspaces, codebook.bits));
  std::fill_n(gains, num_keys, 0.0f);
  uint8_t nearest[kCodeKeys];
  float gain[kCodeKeys];
  for (size_t s = 0; s < codebook.num_subspaces; ++s) {
    FindNearest(codebook, s, rows + s * width, stride, num_keys, nearest, gain);
    const size_t line = codebook.bits == 4 ? s / 2 : s;
    const int shift = codebook.bits == 4 && s % 2 == 1 ? 4 : 0;
    uint8_t* const bytes = block + line * kCodeKeys;
    for (size_t i = 0; i < num_keys; ++i) {
      uint8_t& byte = bytes[CodeByte(i)];
      byte = static_cast<uint8_t>(byte | nearest[i] << shift);
      gains[i] += gain[i];
    }
  }
}

}  // namespace attndb::kernels
