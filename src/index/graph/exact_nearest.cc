#include "index/graph/exact_nearest.h"

#include <algorithm>
#include <span>
#include <vector>

#include "index/graph/ordered_score.h"
#include "kernels/score.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

constexpr size_t kQueriesAtOnce = 8;  // A scan of all rows serves this many queries.

struct alignas(64) Line {
  std::byte bytes[64];
};

// The numbers of the largest scores, as many as `best` has room for, best first.
void TakeBest(std::span<const float> scores, std::span<uint32_t> best) {
  std::vector<Line> scratch(kernels::SelectTopKScratchBytes(scores.size()) / sizeof(Line) + 1);
  std::vector<uint32_t> indices(best.size() + kernels::kSelectSlack);
  const size_t count = kernels::SelectTopK(scores.data(), scores.size(), best.size(),
                                           indices.data(), scratch.data());
  std::sort(indices.begin(), indices.begin() + static_cast<ptrdiff_t>(count),
            [&](uint32_t a, uint32_t b) {
              const float of_a = Ordered(scores[a]), of_b = Ordered(scores[b]);
              return of_a != of_b ? of_a > of_b : a < b;
            });
  std::copy_n(indices.begin(), count, best.begin());
}

}  // namespace

NearestLists FindExactNearest(const ExactNearestCall& call) {
  NearestLists nearest;
  nearest.length = std::min(call.length, call.num_rows);
  nearest.ids.assign(call.num_queries * nearest.length, kNoKey);
  const size_t width = call.rows.num_elements;
  ForParts(call.pool, (call.num_queries + kQueriesAtOnce - 1) / kQueriesAtOnce, [&](uint32_t part) {
    if (call.cancel != nullptr && call.cancel->load(std::memory_order_relaxed)) return;
    const size_t first = part * kQueriesAtOnce;
    const size_t count = std::min(kQueriesAtOnce, call.num_queries - first);
    std::vector<float> queries(count * width), scores(count * call.num_rows);
    for (size_t i = 0; i < count; ++i) call.load(first + i, queries.data() + i * width);
    kernels::ScoreRows(call.rows, call.num_rows, queries.data(), width, count, scores.data(),
                       call.num_rows);
    for (size_t i = 0; i < count; ++i) {
      TakeBest({scores.data() + i * call.num_rows, call.num_rows},
               {nearest.ids.data() + (first + i) * nearest.length, nearest.length});
    }
  });
  return nearest;
}

}  // namespace attndb::index
