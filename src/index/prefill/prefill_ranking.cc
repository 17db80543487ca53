#include "index/prefill/prefill_ranking.h"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/coding.h"
#include "common/infinity.h"
#include "index/piece_check.h"
#include "kernels/convert.h"
#include "kernels/score.h"
#include "kernels/weights.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {
namespace {

using storage::ExpectEqual;

constexpr size_t kRowsAtOnce = 8;  // Rows of q for one pass over the keys.

// The last rows of the sample, and weights of keys by them.
class Weigher {
 public:
  explicit Weigher(const RankingSource& source)
      : source_(source), first_(source.queries.num_rows() - NumRows(source)) {}

  static uint64_t NumRows(const RankingSource& source) {
    return std::min(source.queries.num_rows(), kPrefillQueries);
  }

  std::vector<double> WeighAll() const {
    std::vector<double> weights(source_.num_keys);
    const size_t width = source_.keys.num_elements;
    std::vector<float> q(kRowsAtOnce * width);
    std::vector<float> scores(kRowsAtOnce * source_.num_keys);
    for (uint64_t row = first_; row < source_.queries.num_rows(); row += kRowsAtOnce) {
      const uint64_t count = std::min<uint64_t>(kRowsAtOnce, source_.queries.num_rows() - row);
      const kernels::RowsView rows = {source_.queries.q, width, width, source_.keys.dtype};
      kernels::LoadRows(rows, row, count, q.data());
      kernels::ScoreRows(source_.keys, source_.num_keys, q.data(), width, count, scores.data(),
                         source_.num_keys);
      for (uint64_t i = 0; i < count; ++i) {
        AddWeights(row + i, scores.data() + i * source_.num_keys, &weights);
      }
    }
    return weights;
  }

 private:
  // Changes the scores. A row with NaN weights does not count.
  void AddWeights(uint64_t row, float* scores, std::vector<double>* weights) const {
    const uint64_t num_seen = std::min(uint64_t{source_.queries.tokens[row]} + 1, source_.num_keys);
    kernels::ToLogits(scores, num_seen, source_.logit, scores);
    double max = double{*std::max_element(scores, scores + num_seen)};
    double denominator = -kInfinity;
    if (!source_.denominator_logits.empty()) {
      const uint32_t q_head = source_.queries.q_heads[row];
      if (q_head >= source_.denominator_logits.size()) return;
      denominator = double{source_.denominator_logits[q_head]};
      max = std::max(max, denominator);
    }
    double sum = std::exp(denominator - max);
    for (uint64_t i = 0; i < num_seen; ++i) sum += std::exp(double{scores[i]} - max);
    if (!std::isfinite(sum)) return;
    for (uint64_t i = 0; i < num_seen; ++i) {
      (*weights)[i] += std::exp(double{scores[i]} - max) / sum;
    }
  }

  const RankingSource& source_;
  const uint64_t first_;
};

// The heaviest keys, in order.
std::vector<uint32_t> Rank(const std::vector<double>& weights) {
  std::vector<uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto end =
      order.begin() + static_cast<std::ptrdiff_t>(PrefillRanking::NumRanked(weights.size()));
  std::partial_sort(order.begin(), end, order.end(), [&weights](uint32_t a, uint32_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  order.erase(end, order.end());
  return order;
}

Status CheckRows(std::span<const uint32_t> rows, uint64_t num_keys, std::string_view object) {
  std::vector<bool> seen(num_keys);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < num_keys && !seen[rows[i]]) {
      seen[rows[i]] = true;
      continue;
    }
    return storage::Mismatch(object, "rows[" + std::to_string(i) + "]",
                             "a row below " + std::to_string(num_keys) + " that is there once",
                             std::to_string(rows[i]));
  }
  return Status::Ok();
}

}  // namespace

PrefillRanking::PrefillRanking(std::span<const std::byte> bytes)
    : bytes_(bytes),
      ranking_{PieceOf<uint32_t>(bytes, kRankingHeaderBytes,
                                 (bytes.size() - kRankingHeaderBytes) / sizeof(uint32_t))} {}

Result<PrefillRanking> PrefillRanking::Build(const RankingSource& source) {
  ATTNDB_CHECK(source.num_keys > 0 && source.queries.num_rows() > 0);
  const std::vector<uint32_t> rows = Rank(Weigher(source).WeighAll());
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Allocate(BytesFor(source.num_keys)));
  ByteWriter writer;
  writer.Bytes(BytesOf(kRankingMagic));
  writer.U32(kRankingVersion);
  writer.U32(static_cast<uint32_t>(Weigher::NumRows(source)));
  writer.U64(source.num_keys);
  writer.U64(rows.size());
  writer.PadTo(kRankingHeaderBytes);
  for (const uint32_t row : rows) writer.U32(row);
  ATTNDB_CHECK(writer.bytes().size() == buffer.size());
  std::ranges::copy(writer.bytes(), buffer.data());
  PrefillRanking ranking(buffer.span());
  ranking.buffer_ = std::move(buffer);
  return ranking;
}

Result<PrefillRanking> PrefillRanking::Parse(std::span<const std::byte> bytes, uint64_t num_keys,
                                             std::string_view object) {
  ATTNDB_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPieceAlignment == 0);
  ByteReader in(bytes, object);
  ATTNDB_RETURN_IF_ERROR(
      storage::CheckMagicAndVersion(&in, object, kRankingMagic, kRankingVersion));
  const uint32_t num_queries = in.U32("num_queries");
  const uint64_t keys = in.U64("num_keys");
  const uint64_t num_ranked = in.U64("num_ranked");
  ATTNDB_RETURN_IF_ERROR(storage::ReadZeros(&in, object, kRankingHeaderBytes));
  if (num_queries == 0 || num_queries > kPrefillQueries) {
    return storage::Mismatch(object, "num_queries", "1 to " + std::to_string(kPrefillQueries),
                             std::to_string(num_queries));
  }
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_keys", keys, num_keys));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "num_ranked", num_ranked, NumRanked(num_keys)));
  ATTNDB_RETURN_IF_ERROR(ExpectEqual(object, "bytes", bytes.size(), BytesFor(num_keys)));
  PrefillRanking ranking(bytes);
  ATTNDB_RETURN_IF_ERROR(CheckRows(ranking.rows(), num_keys, object));
  return ranking;
}

}  // namespace attndb::index
