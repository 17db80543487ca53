#include "index/clustered/clustered_keys.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/lane_sum.h"
#include "common/random.h"
#include "index/clustered/key_order.h"
#include "index/planes/key_sample.h"
#include "kernels/convert.h"
#include "kernels/score.h"
#include "kernels/weights.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using kernels::kWeightBlock;

// Without factors for channels, which the runs of a chain would have of their own: a q is made
// ready once for all of them.
constexpr TransformId kClusterTransform = TransformId::kTurnBlocks;

// Sampled queries that the metric is taken from, and that reaches are.
constexpr size_t kMetricQueries = 1024;
constexpr size_t kReachQueries = 48;

// Some of the sampled queries, evenly spaced. Skips non-finite ones: imported queries may be
// anything.
std::vector<float> SomeQueries(const PlaneSource& source, size_t most) {
  const size_t num_channels = source.keys.num_elements;
  const size_t num_rows = source.queries.num_rows();
  const size_t count = std::min(most, num_rows);
  std::vector<float> rows;
  std::vector<float> row(num_channels);
  for (size_t i = 0; i < count; ++i) {
    kernels::LoadRows({source.queries.q, num_channels, num_channels, source.keys.dtype},
                      i * num_rows / count, 1, row.data());
    const double norm = Norm(row);
    if (std::isfinite(norm) && norm > 0) rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// The factor of each channel; ones if there are no queries.
std::vector<float> Metric(const PlaneSource& source) {
  const size_t num_channels = source.keys.num_elements;
  const std::vector<float> queries = SomeQueries(source, kMetricQueries);
  std::vector<double> squares(num_channels);
  for (size_t i = 0; i < queries.size(); ++i) {
    squares[i % num_channels] += double{queries[i]} * double{queries[i]};
  }
  std::vector<float> metric(num_channels, 1.0f);
  const double largest = *std::ranges::max_element(squares);
  if (largest == 0) return metric;
  for (size_t d = 0; d < num_channels; ++d) {
    metric[d] = static_cast<float>(std::pow(squares[d] / largest, 0.25));
  }
  return metric;
}

// By place, the key's number in its piece.
std::vector<uint16_t> OrderKeys(const PlaneSource& source) {
  const size_t num_channels = source.keys.num_elements;
  const std::vector<float> metric = Metric(source);
  std::vector<uint16_t> order(source.num_keys);
  std::vector<float> rows(std::min(source.num_keys, kPieceKeys) * num_channels);
  std::vector<uint32_t> piece;
  for (size_t begin = 0; begin < source.num_keys; begin += kPieceKeys) {
    piece.resize(std::min(kPieceKeys, source.num_keys - begin));
    kernels::LoadRows(source.keys, begin, piece.size(), rows.data());
    for (size_t i = 0; i < piece.size() * num_channels; ++i) rows[i] *= metric[i % num_channels];
    OrderPiece(rows.data(), num_channels, piece);
    for (size_t i = 0; i < piece.size(); ++i) order[begin + i] = static_cast<uint16_t>(piece[i]);
  }
  return order;
}

// For each block of keys, in their order: by how much its best key scores above the mean of all
// keys, for a q of norm 1. Root mean square over sampled queries.
class ReachMeter {
 public:
  ReachMeter(const PlaneSource& source, std::span<const uint32_t> order)
      : source_(source),
        order_(order),
        num_channels_(source.keys.num_elements),
        queries_(SomeQueries(source, kReachQueries)),
        rows_(kWeightBlock * num_channels_) {
    if (queries_.empty()) TakeAnyQueries();
    num_queries_ = queries_.size() / num_channels_;
    for (size_t i = 0; i < num_queries_; ++i) {
      const std::span<float> q(queries_.data() + i * num_channels_, num_channels_);
      const auto norm = static_cast<float>(Norm(q));
      for (float& x : q) x /= norm;
    }
    scores_.resize(num_queries_ * kWeightBlock);
  }

  float Measure(size_t begin, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      kernels::LoadRows(source_.keys, order_[begin + i], 1, rows_.data() + i * num_channels_);
    }
    kernels::ScoreRows({rows_.data(), num_channels_, num_channels_, DType::kFloat32}, count,
                       queries_.data(), num_channels_, num_queries_, scores_.data(), kWeightBlock);
    double sum = 0;
    for (size_t r = 0; r < num_queries_; ++r) {
      const std::span<const float> scores(scores_.data() + r * kWeightBlock, count);
      const double mean = LaneSum<double>(count, [&](size_t i) { return double{scores[i]}; }) /
                          static_cast<double>(count);
      const double reach = double{*std::ranges::max_element(scores)} - mean;
      sum += reach * reach;
    }
    return static_cast<float>(std::sqrt(sum / static_cast<double>(num_queries_)));
  }

 private:
  // Without known queries, any direction is as likely as another.
  void TakeAnyQueries() {
    Random random(kReachQueries);
    queries_.resize(kReachQueries * num_channels_);
    for (float& x : queries_) x = static_cast<float>(random.NextGaussian());
  }

  const PlaneSource& source_;
  const std::span<const uint32_t> order_;
  const size_t num_channels_;
  std::vector<float> queries_;  // Scaled to norm 1.
  size_t num_queries_ = 0;
  std::vector<float> rows_;
  std::vector<float> scores_;
};

}  // namespace

uint64_t ClusteredKeys::BytesFor(uint64_t num_keys, size_t num_channels) {
  return PlaneLayout(num_keys, num_channels, kClusterTransform).main_bytes +
         OrderLayout(num_keys).total_bytes +
         ClusterMeans::BytesFor(kernels::NumWeightBlocks(num_keys), num_channels);
}

Result<ClusteredKeys> ClusteredKeys::Build(const PlaneSource& source) {
  if (source.num_keys == 0) return ClusteredKeys();
  const std::vector<uint16_t> numbers = OrderKeys(source);
  std::vector<uint32_t> order(source.num_keys);
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<uint32_t>(i / kPieceKeys * kPieceKeys + numbers[i]);
  }
  PlaneSource ordered = source;
  ordered.order = order;
  ordered.frequencies = {};
  ATTNDB_ASSIGN_OR_RETURN(const KeyPlanes planes, KeyPlanes::BuildWith(kClusterTransform, ordered));
  if (planes.num_keys() == 0) return ClusteredKeys();
  const std::span<const std::byte> main = planes.parts().main;
  const OrderLayout layout(source.num_keys);
  const size_t order_begin = RoundUpToPiece(main.size());
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          AlignedBuffer::AllocateZeroed(order_begin + layout.total_bytes));
  std::ranges::copy(main, buffer.data());
  const std::span<std::byte> out = buffer.span().subspan(order_begin);
  EncodeOrderHeader(source.num_keys, out.first(kClustersHeaderBytes));
  std::ranges::copy(numbers, reinterpret_cast<uint16_t*>(out.data() + layout.numbers));
  auto* reach = reinterpret_cast<float*>(out.data() + layout.reaches);
  ReachMeter meter(source, order);
  for (size_t begin = 0; begin < source.num_keys; begin += kWeightBlock) {
    *reach++ = meter.Measure(begin, std::min(kWeightBlock, source.num_keys - begin));
  }
  const ClusterParts parts = {buffer.span().first(main.size()), out};
  ATTNDB_ASSIGN_OR_RETURN(
      ClusteredKeys built,
      Parse(parts, {source.num_keys, source.keys.num_elements, true}, "built clusters"));
  built.buffer_ = std::move(buffer);
  return built;
}

Result<ClusteredKeys> ClusteredKeys::Parse(const ClusterParts& parts, const PlaneShape& expected,
                                           std::string_view object) {
  PlaneShape shape = expected;
  shape.main_only = true;
  ClusteredKeys keys;
  ATTNDB_ASSIGN_OR_RETURN(keys.planes_, KeyPlanes::Parse({parts.planes, {}}, shape, object));
  if (keys.planes_.transform() != kClusterTransform) {
    return storage::Mismatch(object, "transform", TransformOf(kClusterTransform).name,
                             TransformOf(keys.planes_.transform()).name);
  }
  ATTNDB_ASSIGN_OR_RETURN(keys.means_, ClusterMeans::Make(keys.planes_, object));
  ATTNDB_RETURN_IF_ERROR(CheckOrder(parts.order, shape.num_keys, object));
  const OrderLayout layout(shape.num_keys);
  keys.parts_ = parts;
  keys.numbers_ = PieceOf<uint16_t>(parts.order, layout.numbers, shape.num_keys);
  keys.reaches_ =
      PieceOf<float>(parts.order, layout.reaches, kernels::NumWeightBlocks(shape.num_keys));
  return keys;
}

// Keys change places within their piece only.
PlaceRange ClusteredKeys::PlacesOf(size_t first, size_t end) const {
  if (first >= end) return {};
  return {first / kPieceKeys * kPieceKeys,
          std::min(num_keys(), (end + kPieceKeys - 1) / kPieceKeys * kPieceKeys)};
}

KeepCost ClusteredKeys::Draw(const DrawCall& call, kernels::KeptTokens* kept) const {
  const float effort = call.effort > 0 ? call.effort : kEffort;
  for (size_t r = 0; r < call.scan.queries.size(); ++r) {
    call.row_reaches[r] = effort * call.q_norms[r];
  }
  KeepCall scan = call.scan;
  scan.first_token = static_cast<uint32_t>(scan.first_key);  // Places, to begin with.
  scan.reaches = reaches_.data();
  scan.row_reaches = call.row_reaches;
  kernels::KeptTokens& places = *call.work;
  places.count = 0;
  const KeepCost cost = planes_.Keep(scan, &places);
  for (size_t i = 0; i < places.count; ++i) {
    const uint32_t key = KeyAt(places.tokens[i]);
    if (key < call.first_visible || key >= call.num_visible) continue;
    const size_t to = kept->count++;
    kept->tokens[to] = call.scan.first_token + key;
    kept->noise[to] = places.noise[i];
    for (size_t r = 0; r < scan.queries.size(); ++r) {
      kept->scores[r * kept->stride + to] = places.scores[r * places.stride + i];
    }
  }
  return cost;
}

}  // namespace attndb::index
