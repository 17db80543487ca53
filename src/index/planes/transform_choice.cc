#include "index/planes/transform_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/aligned_buffer.h"
#include "kernels/convert.h"
#include "kernels/score.h"

namespace attndb::index {
namespace {

constexpr size_t kMaxQueries = 48;
// A query that fewer of the sampled keys lie before says little.
constexpr size_t kMinKeysBefore = 64;
constexpr size_t kTopShare = 8;
// By less than this a transform is not better than a cheaper one.
constexpr double kTie = 0.97;

// Sampled queries and the keys of the sample that count for each.
class Trial {
 public:
  Trial(const PlaneSource& source, const KeySample& sample);

  size_t num_queries() const { return norms_.size(); }
  // Root mean square of each channel of the queries; empty if there are none.
  const std::vector<float>& query_rms() const { return query_rms_; }

  Result<PlaneErrors> Measure(const TransformKind& kind, const TransformVectors& vectors) const;

 private:
  // Sums of squares of errors over the norms of their queries, of the scores that count.
  struct SquaredErrors {
    double bits4 = 0;
    double bits8 = 0;
  };
  struct BlockOfQuery {
    size_t query = 0;
    size_t first_row = 0;  // First row of the block in the sample.
  };
  // `planes`: planes of the sample's keys from `first_row` on.
  void AddErrors(const KeyPlanes& planes, size_t first_row, std::byte* spare,
                 SquaredErrors* sums) const;
  void AddSquares(const KeyPlanes& planes, const EstimateQuery& prepared, uint32_t bits,
                  const BlockOfQuery& at, double* sum) const;
  size_t NumBefore(size_t row) const;
  void Add(size_t row);
  void MarkTop(size_t query, size_t num_before);
  const float* query(size_t i) const { return queries_.data() + i * num_channels_; }

  const PlaneSource& source_;
  const KeySample& sample_;
  const size_t num_channels_;
  std::vector<float> queries_;  // [num_queries, num_channels]
  std::vector<double> norms_;
  std::vector<float> query_rms_;
  std::vector<float> exact_;     // Scores, [num_queries, rows of the sample]
  std::vector<uint8_t> counts_;  // 1 where the score counts.
};

Trial::Trial(const PlaneSource& source, const KeySample& sample)
    : source_(source), sample_(sample), num_channels_(source.keys.num_elements) {
  std::vector<size_t> rows;  // Rows of source.queries with enough keys before them.
  for (size_t i = 0; i < source.queries.num_rows(); ++i) {
    if (NumBefore(i) >= std::min(kMinKeysBefore, sample.num_rows())) rows.push_back(i);
  }
  const size_t count = std::min(rows.size(), kMaxQueries);
  for (size_t i = 0; i < count; ++i) Add(rows[i * rows.size() / count]);
  if (num_queries() == 0) return;
  for (size_t d = 0; d < num_channels_; ++d) {
    double square = 0;
    for (size_t i = 0; i < num_queries(); ++i) square += double{query(i)[d]} * double{query(i)[d]};
    query_rms_.push_back(
        static_cast<float>(std::sqrt(square / static_cast<double>(num_queries()))));
  }
}

// Keys of the sample that the query's token sees; out of order, all.
size_t Trial::NumBefore(size_t row) const {
  if (!source_.order.empty()) return sample_.num_rows();
  const size_t token = source_.queries.tokens[row];
  size_t before = 0;
  for (const KeySample::Block& block : sample_.blocks()) {
    if (token >= block.first_key) before += std::min(token - block.first_key + 1, block.num_keys);
  }
  return before;
}

void Trial::Add(size_t row) {
  std::vector<float> q(num_channels_);
  kernels::LoadRows({source_.queries.q, num_channels_, num_channels_, source_.keys.dtype}, row, 1,
                    q.data());
  double square = 0;
  for (const float x : q) square += double{x} * double{x};
  if (!std::isfinite(square) || square == 0) return;  // Imported queries may be anything.
  norms_.push_back(std::sqrt(square));
  queries_.insert(queries_.end(), q.begin(), q.end());
  const size_t num_rows = sample_.num_rows();
  exact_.resize(num_queries() * num_rows);
  counts_.resize(num_queries() * num_rows);
  kernels::ScoreRows({sample_.rows().data(), num_channels_, num_channels_, DType::kFloat32},
                     num_rows, q.data(), num_channels_, 1, exact_.data() + exact_.size() - num_rows,
                     num_rows);
  MarkTop(num_queries() - 1, NumBefore(row));
}

// Sampled keys are in token order, so the keys before a query are the first ones.
void Trial::MarkTop(size_t query, size_t num_before) {
  const size_t begin = query * sample_.num_rows();
  std::vector<float> scores(exact_.begin() + static_cast<ptrdiff_t>(begin),
                            exact_.begin() + static_cast<ptrdiff_t>(begin + num_before));
  const size_t num_top = std::max<size_t>(1, num_before / kTopShare);
  const auto last = scores.begin() + static_cast<ptrdiff_t>(num_top - 1);
  std::ranges::nth_element(scores, last, std::greater<>());
  for (size_t i = begin; i < begin + num_before; ++i) counts_[i] = exact_[i] >= *last ? 1 : 0;
}

void Trial::AddSquares(const KeyPlanes& planes, const EstimateQuery& prepared, uint32_t bits,
                       const BlockOfQuery& at, double* sum) const {
  const size_t num_keys = planes.num_keys();
  float scores[kernels::kWeightBlock];
  planes.Scan(bits, 0, num_keys, &prepared, 1, scores, num_keys);
  const size_t first = at.query * sample_.num_rows() + at.first_row;
  for (size_t j = 0; j < num_keys; ++j) {
    const double error = (double{scores[j]} - double{exact_[first + j]}) / norms_[at.query];
    *sum += counts_[first + j] == 0 ? 0.0 : error * error;
  }
}

void Trial::AddErrors(const KeyPlanes& planes, size_t first_row, std::byte* spare,
                      SquaredErrors* sums) const {
  auto* const floats = reinterpret_cast<float*>(spare);
  std::byte* const codes = spare + num_channels_ * sizeof(float);
  for (size_t i = 0; i < num_queries(); ++i) {
    const BlockOfQuery at = {i, first_row};
    const EstimateQuery prepared = planes.Prepare(query(i), floats, codes);
    AddSquares(planes, prepared, 4, at, &sums->bits4);
    AddSquares(planes, prepared, 8, at, &sums->bits8);
  }
}

Result<PlaneErrors> Trial::Measure(const TransformKind& kind,
                                   const TransformVectors& vectors) const {
  const size_t spare_bytes = num_channels_ * sizeof(float) + QueryCodeBytes(num_channels_);
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer spare, AlignedBuffer::Allocate(spare_bytes));
  PlaneBuilder builder(source_, kind, vectors);
  SquaredErrors squares;
  size_t first_row = 0;
  for (const KeySample::Block& block : sample_.blocks()) {
    ATTNDB_ASSIGN_OR_RETURN(const KeyPlanes planes,
                            builder.Build(block.first_key, block.num_keys, std::nullopt));
    if (planes.num_keys() == 0) {
      squares.bits4 = squares.bits8 = std::numeric_limits<double>::infinity();
      break;
    }
    AddErrors(planes, first_row, spare.data(), &squares);
    first_row += block.num_keys;
  }
  const auto num_counted = static_cast<double>(std::ranges::count(counts_, 1));
  const auto deviation = [=](double sum) {
    return static_cast<float>(std::sqrt(sum / std::max(1.0, num_counted)));
  };
  return PlaneErrors{deviation(squares.bits4), deviation(squares.bits8)};
}

Result<TransformChoice> FitAndMeasure(const TransformKind& kind, const KeySample& sample,
                                      const Trial& trial) {
  TransformChoice choice = {kind, sample.Fit(kind, trial.query_rms()), std::nullopt};
  if (trial.num_queries() == 0) return choice;
  ATTNDB_ASSIGN_OR_RETURN(choice.errors, trial.Measure(kind, choice.vectors));
  return choice;
}

}  // namespace

Result<TransformChoice> ChooseTransform(const PlaneSource& source) {
  const KeySample sample(source);
  const Trial trial(source, sample);
  ATTNDB_ASSIGN_OR_RETURN(TransformChoice best,
                          FitAndMeasure(TransformOf(kDefaultTransform), sample, trial));
  if (!best.errors) return best;
  const auto price = [](const TransformChoice& choice) {
    return choice.kind.scan_cost * double{choice.errors->bits4};
  };
  double least = std::numeric_limits<double>::infinity();
  for (const TransformKind& kind : Transforms()) {
    if (!kind.is_choice || (kind.removes_bias && source.frequencies.empty())) continue;
    ATTNDB_ASSIGN_OR_RETURN(TransformChoice choice, FitAndMeasure(kind, sample, trial));
    if (!(price(choice) < kTie * least)) continue;
    least = price(choice);
    best = std::move(choice);
  }
  return best;
}

Result<TransformChoice> TryTransform(const PlaneSource& source, TransformId id) {
  const KeySample sample(source);
  return FitAndMeasure(TransformOf(id), sample, Trial(source, sample));
}

}  // namespace attndb::index
