#include "index/planes/key_planes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.h"
#include "common/lane_sum.h"
#include "common/random.h"
#include "index/planes/block_needs.h"
#include "index/planes/plane_builder.h"
#include "index/planes/transform_choice.h"
#include "kernels/convert.h"
#include "kernels/hadamard.h"
#include "kernels/prefetch.h"
#include "kernels/score.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

// One rotation for all heads and all time: planes of two builds of a segment are the same bytes.
constexpr uint64_t kRotationSeed = 0x6174746e6462;  // "attndb"

using kernels::kPlaneKeys;
using kernels::kWeightBlock;

// Rows of a scan at a time.
constexpr size_t kScanRows = 16;
static_assert(kWeightBlock == kernels::kOffsetKeys);

std::vector<float> RotationSigns(size_t num_channels) {
  Random random(kRotationSeed);
  std::vector<float> signs(2 * num_channels);
  for (float& sign : signs) sign = random.OneIn(2) ? -1.0f : 1.0f;
  return signs;
}

size_t NextMultiple(size_t n, size_t of) { return (n / of + 1) * of; }

// Calls f(queries, first) for at most kScanRows of them at a time, from the first-th on.
template <typename F>
void ForRows(std::span<const EstimateQuery> queries, const F& f) {
  for (size_t first = 0; first < queries.size(); first += kScanRows) {
    f(queries.subspan(first, std::min(kScanRows, queries.size() - first)), first);
  }
}

}  // namespace

KeyPlanes::KeyPlanes(const PlaneHeader& header, const PlaneParts& parts)
    : header_(header),
      layout_(header.num_keys, header.num_channels, header.transform),
      parts_(parts),
      signs_(RotationSigns(header.num_channels)) {}

uint64_t KeyPlanes::BytesFor(uint64_t num_keys, size_t num_channels) {
  uint64_t most = 0;
  for (const TransformKind& kind : Transforms()) {
    const PlaneLayout layout(num_keys, num_channels, kind.id);
    most = std::max(most, layout.total_bytes());
  }
  return most;
}

Result<KeyPlanes> KeyPlanes::Build(const PlaneSource& source) {
  if (source.num_keys == 0) return KeyPlanes();
  ATTNDB_ASSIGN_OR_RETURN(const TransformChoice choice, ChooseTransform(source));
  return BuildBy(choice, source);
}

Result<KeyPlanes> KeyPlanes::BuildWith(TransformId transform, const PlaneSource& source) {
  if (source.num_keys == 0) return KeyPlanes();
  ATTNDB_ASSIGN_OR_RETURN(const TransformChoice choice, TryTransform(source, transform));
  return BuildBy(choice, source);
}

Result<KeyPlanes> KeyPlanes::BuildBy(const TransformChoice& choice, const PlaneSource& source) {
  PlaneBuilder builder(source, choice.kind, choice.vectors);
  ATTNDB_ASSIGN_OR_RETURN(KeyPlanes planes, builder.Build(0, source.num_keys, choice.errors));
  planes.FindOutliers();
  return planes;
}

void KeyPlanes::FindOutliers() {
  // Blocks of usual keys differ by a factor of a few.
  constexpr float kOutlierResiduals = 16;
  const size_t num_blocks = kernels::NumWeightBlocks(header_.num_keys);
  if (num_blocks == 0) return;
  const auto* const blocks = Piece<PlaneBound>(layout_.bounds);
  std::vector<float> residuals(num_blocks);
  for (size_t b = 0; b < num_blocks; ++b) residuals[b] = blocks[b].residual4;
  const auto median = residuals.begin() + static_cast<ptrdiff_t>(num_blocks / 2);
  std::ranges::nth_element(residuals, median);
  for (uint32_t b = 0; b < num_blocks; ++b) {
    if (blocks[b].residual4 > kOutlierResiduals * *median) outliers_.push_back(b);
  }
}

Result<KeyPlanes> KeyPlanes::Parse(const PlaneParts& parts, const PlaneShape& expected,
                                   std::string_view object) {
  ATTNDB_ASSIGN_OR_RETURN(const PlaneHeader header, DecodePlaneParts(parts, expected, object));
  KeyPlanes planes(header, parts);
  if (planes.kind().removes_bias) {
    planes.bias_ = std::make_shared<RotaryBias>(
        planes.Piece<float>(planes.layout_.bias),
        std::span(planes.Piece<double>(planes.layout_.frequency), header.num_pairs));
  }
  planes.FindOutliers();
  return planes;
}

uint64_t KeyPlanes::ScanBytes(uint32_t bits) const {
  const uint64_t channels = header_.num_channels;
  const uint64_t of_means = has_block_means() ? channels * sizeof(uint16_t) / kWeightBlock : 0;
  return channels * bits / 8 + sizeof(uint16_t) + of_means;
}

float KeyPlanes::ScoreError(uint32_t bits, float q_norm) const {
  const float error = bits == 4 ? header_.error4 : header_.error8;
  return error * q_norm;
}

double KeyPlanes::EncodeQuery(const float* q, int8_t* codes, kernels::PlaneQuery* query) const {
  const size_t num_channels = header_.num_channels;
  kernels::EncodePlaneQuery(q, num_channels, codes, &query->scale, &query->code_sum);
  query->codes = codes;
  const double scale = query->scale;
  return std::sqrt(LaneSum<double>(num_channels, [&](size_t d) {
    const double left = double{q[d]} - scale * codes[d];
    return left * left;
  }));
}

EstimateQuery KeyPlanes::Prepare(const float* q, float* spare, std::byte* codes) const {
  const size_t num_channels = header_.num_channels;
  const auto* const mean = Piece<float>(layout_.mean);
  const auto* const scale = Piece<float>(layout_.channel_scale);
  EstimateQuery query;
  query.q = q;
  const double q_norm = Norm({q, num_channels});
  query.offset = static_cast<float>(
      LaneSum<double>(num_channels, [&](size_t d) { return double{q[d]} * double{mean[d]}; }));
  for (size_t d = 0; d < num_channels; ++d) spare[d] = q[d] / scale[d];
  kernels::HadamardRows(spare, num_channels, 1, num_channels, signs_.data());
  const double residual = EncodeQuery(spare, reinterpret_cast<int8_t*>(codes), &query.plane);
  // See plane_builder.h. A score is rounded five times, first the sum.
  const double norm = Norm({spare, num_channels});
  query.norm = static_cast<float>(norm * (1 + kTransformRounding));
  query.residual =
      static_cast<float>(residual * (1 + kTransformRounding) + norm * 2 * kTransformRounding);
  query.rounding =
      static_cast<float>(q_norm * double{header_.added_norm} * kAddedRounding + kUnderflow);
  if (bias_ != nullptr) {
    bias_->Prepare(q, spare);
    query.position_terms = spare;
  }
  return query;
}

void KeyPlanes::Scan(uint32_t bits, size_t first_key, size_t num_keys, const EstimateQuery* queries,
                     size_t num_q_rows, float* scores, size_t scores_stride) const {
  ATTNDB_DCHECK(first_key + num_keys <= header_.num_keys);
  const bool has_means = has_block_means();
  float of_means[kScanRows * kMeanBlocks];
  const size_t end = first_key + num_keys;
  ForRows({queries, num_q_rows}, [&](std::span<const EstimateQuery> some, size_t first) {
    float* const out = scores + first * scores_stride;
    for (size_t begin = first_key; begin < end;) {
      const size_t piece_end =
          has_means ? std::min(end, NextMultiple(begin, kMeanBlocks * kWeightBlock)) : end;
      if (has_means) ScoreBlockMeans(begin, piece_end, some, of_means);
      ScanKeys(bits, begin, piece_end, {some, has_means ? of_means : nullptr, begin / kWeightBlock},
               out + (begin - first_key), scores_stride);
      begin = piece_end;
    }
  });
}

void KeyPlanes::Fetch(uint32_t bits, size_t first_key, size_t num_keys) const {
  ATTNDB_DCHECK(first_key + num_keys <= header_.num_keys);
  const size_t end = first_key + num_keys;
  const size_t block_bytes = kernels::PlaneBlockBytes(header_.num_channels);
  const size_t begin_byte = first_key / kPlaneKeys * block_bytes;
  const size_t num_bytes = (end + kPlaneKeys - 1) / kPlaneKeys * block_bytes - begin_byte;
  kernels::PrefetchLines(view().high + begin_byte, num_bytes);
  if (bits == 8) kernels::PrefetchLines(view().low + begin_byte, num_bytes);
  kernels::PrefetchLines(view().scales + first_key, num_keys * sizeof(uint16_t));
  if (!has_block_means()) return;
  const size_t first_block = first_key / kWeightBlock;
  const size_t row_bytes = header_.num_channels * sizeof(uint16_t);
  kernels::PrefetchLines(Piece<std::byte>(layout_.block_means) + first_block * row_bytes,
                         (kernels::NumWeightBlocks(end) - first_block) * row_bytes);
}

KeepCost KeyPlanes::Keep(const KeepCall& call, kernels::KeptTokens* kept) const {
  KeepCost cost;
  const size_t end = call.first_key + call.num_keys;
  ATTNDB_DCHECK(end <= header_.num_keys);
  for (size_t begin = call.first_key; begin < end;) {
    const size_t piece_end = std::min(end, NextMultiple(begin, kMeanBlocks * kWeightBlock));
    const float* of_means = nullptr;
    if (has_block_means()) {
      float* const out = call.work + call.queries.size() * kKeepKeys;
      ForRows(call.queries, [&](std::span<const EstimateQuery> some, size_t first) {
        ScoreBlockMeans(begin, piece_end, some, out + first * kMeanBlocks);
      });
      of_means = out;
    }
    const KeepCost piece =
        KeepPiece(call, begin, piece_end, {call.queries, of_means, begin / kWeightBlock}, kept);
    cost.num_scored += piece.num_scored;
    cost.num_missed += piece.num_missed;
    begin = piece_end;
  }
  return cost;
}

// In one pass where whole blocks of keys allow it, else tile by tile.
KeepCost KeyPlanes::KeepPiece(const KeepCall& call, size_t begin, size_t end, const ScanRows& rows,
                              kernels::KeptTokens* kept) const {
  const bool in_one_pass = bias_ == nullptr && call.rule.logit.soft_cap == 0 &&
                           rows.queries.size() <= kernels::kKeepRows;
  const size_t whole_end = end / kPlaneKeys * kPlaneKeys;
  const bool skips = in_one_pass && call.reaches != nullptr;
  BlockNeeds needs(call, {rows.first_block, end});
  if (skips) needs.Find(rows.of_means, kMeanBlocks);
  const size_t first_kept = kept->count;
  KeepCost cost;
  while (begin < end) {
    const size_t done = begin - call.first_key;
    const float* const noise = call.noise + done;
    const uint32_t first_token = call.first_token + static_cast<uint32_t>(done);
    const bool whole = in_one_pass && begin % kPlaneKeys == 0 && begin < whole_end;
    const size_t tile_end = NextMultiple(begin, in_one_pass ? kPlaneKeys : kKeepKeys);
    const size_t next = whole ? whole_end : std::min(end, tile_end);
    if (whole) {
      kernels::PlaneQuery planes[kScanRows];
      Complete(rows, begin, planes);
      const float* const needed = skips ? needs.From(begin / kWeightBlock) : nullptr;
      cost.num_scored +=
          kernels::KeepPlanes(view(), static_cast<int>(call.bits), begin, next - begin, planes,
                              rows.queries.size(), call.rule, noise, first_token, needed, kept);
    } else {
      cost.num_scored += next - begin;
      ForRows(rows.queries, [&](std::span<const EstimateQuery> some, size_t first) {
        const float* const of_means =
            rows.of_means == nullptr ? nullptr : rows.of_means + first * kMeanBlocks;
        ScanKeys(call.bits, begin, next, {some, of_means, rows.first_block},
                 call.work + first * kKeepKeys, kKeepKeys);
      });
      kernels::KeepTokens(call.rule, call.work, kKeepKeys, rows.queries.size(), next - begin, noise,
                          first_token, kept);
    }
    begin = next;
  }
  if (skips) cost.num_missed = needs.CountMissed(*kept, first_kept);
  return cost;
}

kernels::PlanesView KeyPlanes::view() const {
  return {Piece<uint8_t>(layout_.high), reinterpret_cast<const uint8_t*>(parts_.low.data()),
          Piece<uint16_t>(layout_.scales), header_.num_channels};
}

void KeyPlanes::Complete(const ScanRows& rows, size_t begin, kernels::PlaneQuery* queries) {
  for (size_t r = 0; r < rows.queries.size(); ++r) {
    queries[r] = rows.queries[r].plane;
    queries[r].offset = rows.queries[r].offset;
    if (rows.of_means == nullptr) continue;
    queries[r].block_offsets =
        rows.of_means + r * kMeanBlocks + (begin / kWeightBlock - rows.first_block);
  }
}

void KeyPlanes::ScanKeys(uint32_t bits, size_t begin, size_t end, const ScanRows& rows,
                         float* scores, size_t scores_stride) const {
  const size_t num_rows = rows.queries.size();
  kernels::PlaneQuery planes[kScanRows];
  Complete(rows, begin, planes);
  kernels::ScanPlanes(view(), static_cast<int>(bits), begin, end - begin, planes, num_rows, scores,
                      scores_stride);
  if (bias_ == nullptr) return;
  const float* terms[kScanRows];
  for (size_t r = 0; r < num_rows; ++r) terms[r] = rows.queries[r].position_terms;
  bias_->AddScores(header_.first_position + static_cast<int64_t>(begin), end - begin,
                   {terms, num_rows}, scores, scores_stride);
}

void KeyPlanes::ScoreBlockMeans(size_t begin, size_t end, std::span<const EstimateQuery> queries,
                                float* of_means) const {
  const size_t first_block = begin / kWeightBlock;
  const size_t q_stride =
      queries.size() > 1 ? static_cast<size_t>(queries[1].q - queries[0].q) : header_.num_channels;
  kernels::ScoreRows(kernels::RowsFrom(block_means(), first_block),
                     kernels::NumWeightBlocks(end) - first_block, queries[0].q, q_stride,
                     queries.size(), of_means, kMeanBlocks);
}

kernels::RowsView KeyPlanes::block_means() const {
  ATTNDB_DCHECK(has_block_means());
  const size_t num_channels = header_.num_channels;
  return {Piece<uint16_t>(layout_.block_means), num_channels, num_channels, DType::kBFloat16};
}

void KeyPlanes::ScanBlocks(const BlockScan& scan, float* scores, size_t scores_stride) const {
  const size_t num_blocks = scan.blocks.size();
  ForRows(scan.queries, [&](std::span<const EstimateQuery> some, size_t first) {
    kernels::PlaneQuery planes[kScanRows];
    for (size_t r = 0; r < some.size(); ++r) {
      float* const offsets = scan.work + (first + r) * num_blocks;
      const float* const means = scan.means + (first + r) * scan.means_stride;
      for (size_t i = 0; i < num_blocks; ++i) offsets[i] = means[scan.blocks[i]];
      planes[r] = some[r].plane;
      planes[r].offset = some[r].offset;
      planes[r].block_offsets = offsets;
    }
    kernels::ScanPlaneBlocks(view(), 4, {scan.blocks.data(), num_blocks, header_.num_keys}, planes,
                             some.size(), scores + first * scores_stride, scores_stride);
  });
}

// With y the transformed key, u the transformed q, and y' and u' the values of their codes: u.y -
// u'.y' = u.(y - y') + (u - u').y', by Cauchy and Schwarz at most |u||y - y'| + |u - u'||y'|.
void KeyPlanes::ScoreBounds(uint32_t bits, const EstimateQuery& query, size_t first_block,
                            size_t num_blocks, float* bounds) const {
  ATTNDB_DCHECK(first_block + num_blocks <= kernels::NumWeightBlocks(header_.num_keys));
  const auto* const blocks = Piece<PlaneBound>(layout_.bounds) + first_block;
  constexpr float kUp = 1.0f + 0x1p-20f;  // This sum's own rounding.
  for (size_t b = 0; b < num_blocks; ++b) {
    const float residual = bits == 4 ? blocks[b].residual4 : blocks[b].residual8;
    const float code_norm = blocks[b].norm + residual;
    const float bound = kUp * (query.norm * residual + query.residual * code_norm + query.rounding);
    bounds[b] = std::isnan(bound) ? std::numeric_limits<float>::infinity() : bound;
  }
}

}  // namespace attndb::index
