// Product codes: a key is cut into num_subspaces runs of channels, and each run is replaced by the
// number of the nearest of 2^bits centroids. The scan adds up, for each key and q row, entries of
// lookup tables: q times each centroid.
//
// Sizes:   num_subspaces 2, 4, 8, 16 or 32; bits 4, 6 or 8. num_channels is a multiple of
//          num_subspaces, and at most kMaxRowElements.
// Block:   kCodeKeys keys, 64 bytes a line; keys past the end have code 0. Key i has byte
//          CodeByte(i) of each line. Bits 6 and 8: line s holds codes of subspace s, one a byte.
//          Bits 4: line p holds those of subspace 2p in low halves of bytes, of 2p + 1 in high
//          ones. So 16-bit lanes of a line hold keys i and i + 32, and sums of all even bytes and
//          of all odd ones are those of keys in their order.
// Tables:  an entry is a byte, (q.c - least of the subspace) / scale, to nearest; one scale per q
//          row. Sums of 32 entries fit 16 bits. The order of entries depends on the instruction
//          set. Only scans of the instruction set that made a table can read it.
// Bits:    scores, weights and sums are the same on every ISA. The nearest centroid may differ if
//          two are equally near up to rounding.
// Errors:  none; sizes are preconditions. All inputs are finite: others give wrong numbers, no
//          undefined behaviour. Codes of 6 bits are below 64: the reader of stored codes checks
//          that.
// Threads: stateless.
// Source:  product quantization, Jegou, Douze and Schmid, TPAMI 2011; of keys: PQCache
//          (arXiv:2407.12820), sections 3 and 4.1. Tables of 16 bytes in a register: Andre,
//          Kermarrec and Le Scouarnec, Cache locality is not enough, VLDB 2015. Tables of 256 bytes
//          in four registers, and weights without an exponential: ours.
#ifndef ATTNDB_KERNELS_PRODUCT_CODES_H_
#define ATTNDB_KERNELS_PRODUCT_CODES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"
#include "kernels/weight_words.h"

namespace attndb::kernels {

inline constexpr size_t kCodeKeys = 64;
inline constexpr size_t kMaxSubspaces = 32;
inline constexpr size_t kMaxCodeEntries = 256;

constexpr bool IsCodeShape(size_t num_subspaces, size_t bits) {
  const bool is_power = num_subspaces != 0 && (num_subspaces & (num_subspaces - 1)) == 0;
  return is_power && num_subspaces >= 2 && num_subspaces <= kMaxSubspaces &&
         (bits == 4 || bits == 6 || bits == 8);
}

// Number of centroids of a subspace.
constexpr size_t CodeEntries(size_t bits) { return size_t{1} << bits; }

constexpr size_t CodeBlockBytes(size_t num_subspaces, size_t bits) {
  return kCodeKeys * num_subspaces / (bits == 4 ? 2 : 1);
}

// The byte of a line that holds key i of a block.
constexpr size_t CodeByte(size_t i) { return i % 32 * 2 + i / 32; }

// The code of key i of a block, of one subspace.
constexpr size_t CodeOf(const uint8_t* block, size_t bits, size_t i, size_t subspace) {
  if (bits != 4) return block[subspace * kCodeKeys + CodeByte(i)];
  return block[subspace / 2 * kCodeKeys + CodeByte(i)] >> (subspace % 2 * 4) & 15;
}

// The centroids of all subspaces; not owned.
struct CodebookView {
  // [num_subspaces][num_channels / num_subspaces][2^bits]: centroids lie side by side.
  const float* centroids = nullptr;
  // [num_subspaces][2^bits]: half of the square of each centroid's norm. Scans need none.
  const float* half_squares = nullptr;
  size_t num_channels = 0;
  size_t num_subspaces = 0;  // See above, but FindNearest takes subspaces of any width.
  size_t bits = 0;           // See above.
};

constexpr bool IsCodebook(const CodebookView& view) {
  return IsCodeShape(view.num_subspaces, view.bits) &&
         view.num_channels % view.num_subspaces == 0 && view.num_channels <= kMaxRowElements;
}

// Blocks one after another; not owned. Fastest if 64-byte aligned.
struct ProductCodesView {
  const uint8_t* codes = nullptr;
  size_t num_subspaces = 0;
  size_t bits = 0;
};

// How sums of entries become scores of a q row: scale * sum + offset.
struct TableRow {
  float scale = 0.0f;
  float offset = 0.0f;
  float max_score = 0.0f;  // Score of the largest sum that is possible.
  uint32_t max_sum = 0;
  // How far scores may differ from the sum of the q.c in float32, because these were rounded to
  // entries: at most, and as a standard deviation if roundings are uniform and independent, which
  // is scale * sqrt(num_subspaces / 12).
  float rounding_max = 0.0f;
  float rounding_deviation = 0.0f;
};

// The tables of the q rows of a group; not owned.
struct LookupTables {
  const std::byte* entries = nullptr;
  const TableRow* rows = nullptr;
  size_t num_q_rows = 0;
};

// Bytes of the entries for num_q_rows q rows.
constexpr size_t LookupTableBytes(size_t num_subspaces, size_t bits, size_t num_q_rows) {
  return (num_q_rows + 3) / 4 * 4 * num_subspaces * CodeEntries(bits) * sizeof(uint16_t);
}

// Makes the tables of q rows, q_stride elements apart: q.c is summed in float32, in the order of
// channels. entries [LookupTableBytes], 64-byte aligned, and rows [num_q_rows] are written.
LookupTables BuildLookupTables(const CodebookView& codebook, const float* q, size_t q_stride,
                               size_t num_q_rows, std::byte* entries, TableRow* rows);

// scores[r * scores_stride + i]: of q row r and key first_key + i. The codes are read once for four
// rows. REQUIRES: codes hold all blocks of these keys.
void ScanProductCodes(const ProductCodesView& codes, size_t first_key, size_t num_keys,
                      const LookupTables& tables, float* scores, size_t scores_stride);

// How sums of entries become weights: a bfloat16's bits are a logarithm, linear between powers of
// two, so a weight is a linear function of the sum, in integers:
//   bits = top - (min(max_sum - sum, limit) * spread * slope >> 16)     within 2^-100 to 2^100
// It is exp(logit - reference) times 0.98 to 1.08, where that is in the range.
struct WeightRow {
  uint16_t max_sum = 0;
  uint16_t limit = 0;
  uint16_t spread = 0;  // A power of two.
  uint16_t slope = 0;
  uint16_t top = 0;
};

// The map for logits logit_scale * score, where `reference` is the logit of weight 1: the logit of
// max_score, so that no weight is above 1; or an estimate of the lse, so that weights are
// probabilities. REQUIRES: logit_scale >= 0.
WeightRow MapWeights(const TableRow& row, float logit_scale, float reference);

// The output of WeighProductCodes; each array may be null. Weights are the bits of bfloat16; arrays
// have room for whole blocks, and weights past the last key are 0. Sums are by block.
struct CodeWeights {
  uint16_t* weights = nullptr;  // [q row], weights_stride apart.
  size_t weights_stride = 0;
  float* sums = nullptr;  // [q row], sums_stride apart.
  size_t sums_stride = 0;
  uint16_t* maxima = nullptr;  // The largest weight over all q rows.
  float* maxima_sums = nullptr;
};

// Weighs keys from first_key on, for draws, which correct for any positive number near the weight.
// REQUIRES: first_key is a multiple of kCodeKeys; maps [num_q_rows]; maxima_sums needs maxima.
void WeighProductCodes(const ProductCodesView& codes, size_t first_key, size_t num_keys,
                       const LookupTables& tables, const WeightRow* maps, const CodeWeights& out);

// Finds the nearest centroid c of a subspace for each row x of its channels, `stride` elements
// apart; of equal ones the first. gains[i] = x.c - |c|^2 / 2, so that |x - c|^2 = |x|^2 - 2 * gain.
void FindNearest(const CodebookView& codebook, size_t subspace, const float* rows, size_t stride,
                 size_t num_keys, uint8_t* nearest, float* gains);

// Lowers distances[i] to the squared distance of key i from the centroid, where that is less:
// k-means++ draws the next centroid by these. keys: kDistanceKeys keys side by side, as [blocks,
// width, kDistanceKeys]. distances [num_blocks * kDistanceKeys].
inline constexpr size_t kDistanceKeys = 16;
void LowerDistances(const float* keys, size_t width, size_t num_blocks, const float* centroid,
                    float* distances);

// Writes the codes of a block of keys, rows [num_keys, num_channels]; gains[i] is the sum of
// FindNearest's gains over subspaces. REQUIRES: 0 < num_keys <= kCodeKeys.
void EncodeProductCodes(const CodebookView& codebook, const float* rows, size_t stride,
                        size_t num_keys, uint8_t* block, float* gains);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_PRODUCT_CODES_H_
