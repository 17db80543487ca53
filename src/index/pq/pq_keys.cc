#include "index/pq/pq_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/check.h"
#include "common/lane_sum.h"
#include "index/pq/pq_builder.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

using kernels::kCodeKeys;

// A float32 is off by this share of itself at most.
constexpr double kEpsilon = 0x1p-24;

// An upper bound, in float64, of the norm of one centroid of each subspace together.
double LargestCodeNorm(const kernels::CodebookView& codebook) {
  const size_t num_entries = kernels::CodeEntries(codebook.bits);
  const size_t width = codebook.num_channels / codebook.num_subspaces;
  double sum = 0;
  std::vector<double> squares(num_entries);
  const float* row = codebook.centroids;
  for (size_t s = 0; s < codebook.num_subspaces; ++s) {
    std::ranges::fill(squares, 0.0);
    for (size_t j = 0; j < width; ++j, row += num_entries) {
      for (size_t e = 0; e < num_entries; ++e) squares[e] += double{row[e]} * double{row[e]};
    }
    sum += *std::ranges::max_element(squares);
  }
  return std::sqrt(sum) * (1 + 0x1p-40);
}

struct QueryLayout {
  QueryLayout(const PqHeader& header, size_t num_q_rows)
      : rows(kernels::LookupTableBytes(header.num_subspaces, header.bits, num_q_rows)),
        norms(rows + RoundUpToPiece(num_q_rows * sizeof(kernels::TableRow))),
        paired(norms + RoundUpToPiece(num_q_rows * sizeof(float))),
        // One more to pair them with.
        total_bytes(paired +
                    RoundUpToPiece((num_q_rows + 1) * header.num_channels * sizeof(float))) {}

  size_t rows;
  size_t norms;
  size_t paired;
  size_t total_bytes;
};

}  // namespace

PqKeys::PqKeys(const PqHeader& header, std::span<const std::byte> bytes)
    : header_(header), bytes_(bytes) {}

uint64_t PqKeys::BytesFor(uint64_t num_keys, size_t num_channels, const PqOptions& options) {
  PqHeader header;
  header.num_keys = num_keys;
  header.num_channels = static_cast<uint32_t>(num_channels);
  header.num_subspaces = static_cast<uint32_t>(options.num_subspaces);
  header.bits = static_cast<uint32_t>(options.bits);
  return PqLayout(header).total_bytes;
}

Result<PqKeys> PqKeys::Build(const PqSource& source, const PqOptions& options) {
  if (source.num_keys == 0) return PqKeys();
  ATTNDB_ASSIGN_OR_RETURN(const PqCodebook codebook, TrainPqCodebook(source, options));
  return BuildWith(codebook, source);
}

Result<PqKeys> PqKeys::BuildWith(const PqCodebook& codebook, const PqSource& source) {
  if (source.num_keys == 0) return PqKeys();
  return PqBuilder(codebook, source).Build();
}

Result<PqKeys> PqKeys::Parse(std::span<const std::byte> bytes, const PqShape& expected,
                             std::string_view object) {
  ATTNDB_ASSIGN_OR_RETURN(const PqHeader header, DecodePq(bytes, expected, object));
  PqKeys keys(header, bytes);
  keys.code_norm_ = LargestCodeNorm({keys.Piece<float>(kPqHeaderBytes), nullptr,
                                     header.num_channels, header.num_subspaces, header.bits});
  // The bounds of keys that are centroids are rounding errors alone.
  constexpr double kRoundingPart = 0.05;
  const double usual = double{kMostDeviations} *
                       std::sqrt(static_cast<double>(header.num_channels)) * double{header.error};
  const std::span blocks(keys.residuals(), kernels::NumWeightBlocks(header.num_keys));
  keys.has_outliers_ =
      double{*std::ranges::max_element(blocks)} > std::max(usual, kRoundingPart * keys.code_norm_);
  return keys;
}

double PqKeys::ScanBytes() const {
  return static_cast<double>(kernels::CodeBlockBytes(header_.num_subspaces, header_.bits)) /
         static_cast<double>(kCodeKeys);
}

size_t PqKeys::QueryBytes(size_t num_q_rows) const {
  return QueryLayout(header_, num_q_rows).total_bytes;
}

PqQueries PqKeys::Prepare(const float* q, size_t q_stride, size_t num_q_rows,
                          std::byte* memory) const {
  const QueryLayout layout(header_, num_q_rows);
  const kernels::CodebookView codebook = {Piece<float>(kPqHeaderBytes), nullptr,
                                          header_.num_channels, header_.num_subspaces,
                                          header_.bits};
  auto* const rows = reinterpret_cast<kernels::TableRow*>(memory + layout.rows);
  auto* const norms = reinterpret_cast<float*>(memory + layout.norms);
  auto* const paired = reinterpret_cast<float*>(memory + layout.paired);
  for (size_t r = 0; r < num_q_rows; ++r) {
    const double norm = Norm({q + r * q_stride, header_.num_channels});
    norms[r] = static_cast<float>(norm * (1 + 4 * kEpsilon));
    std::copy_n(q + r * q_stride, header_.num_channels, paired + r * header_.num_channels);
  }
  PairChannels(header_.num_pairs, header_.num_channels, num_q_rows, paired,
               paired + num_q_rows * header_.num_channels);
  return {
      kernels::BuildLookupTables(codebook, paired, header_.num_channels, num_q_rows, memory, rows),
      {rows, num_q_rows},
      {norms, num_q_rows}};
}

kernels::ProductCodesView PqKeys::view() const {
  return {Piece<uint8_t>(PqLayout(header_).codes), header_.num_subspaces, header_.bits};
}

void PqKeys::Scan(const PqQueries& queries, size_t first_key, size_t num_keys, float* scores,
                  size_t scores_stride) const {
  ATTNDB_DCHECK(first_key + num_keys <= header_.num_keys);
  kernels::ScanProductCodes(view(), first_key, num_keys, queries.tables, scores, scores_stride);
}

void PqKeys::Weigh(const PqQueries& queries, std::span<const kernels::WeightRow> maps,
                   size_t first_key, size_t num_keys, const kernels::CodeWeights& out) const {
  ATTNDB_DCHECK(first_key + num_keys <= header_.num_keys);
  ATTNDB_DCHECK(maps.size() == queries.rows.size());
  kernels::WeighProductCodes(view(), first_key, num_keys, queries.tables, maps.data(), out);
}

// q.k - q.c = q.(k - c), by Cauchy and Schwarz at most |q||k - c|. The q.c of each subspace is a
// sum of float32 products in order; the rounding of the tables is added.
void PqKeys::ScoreBounds(const PqQueries& queries, size_t row, size_t first_block,
                         size_t num_blocks, float* bounds) const {
  ATTNDB_DCHECK(first_block + num_blocks <= kernels::NumWeightBlocks(header_.num_keys));
  const auto* const residuals = Piece<float>(PqLayout(header_).bounds) + first_block;
  const double q_norm = queries.norms[row];
  const size_t width = header_.num_channels / header_.num_subspaces;
  const double added = static_cast<double>(width + 2) * kEpsilon * q_norm * code_norm_ +
                       double{queries.rows[row].rounding_max} + kernels::kMaxRowElements * 0x1p-149;
  for (size_t b = 0; b < num_blocks; ++b) {
    const double bound = (q_norm * double{residuals[b]} + added) * (1 + 4 * kEpsilon);
    bounds[b] = bound <= double{std::numeric_limits<float>::max()}
                    ? static_cast<float>(bound)
                    : std::numeric_limits<float>::infinity();
  }
}

}  // namespace attndb::index
