#include "attention/static_tokens.h"

#include <algorithm>

#include "attention/call_util.h"

namespace attndb::attention {
namespace {

// The parts of one run that have a ranking, and how many tokens of the middle they hold.
struct RankedRun {
  std::span<const HeadRun> parts;
  uint64_t num_middle = 0;
};

// Calls f(run) for each run with a ranking, in order.
template <typename F>
void ForEachRanked(std::span<const HeadRun> runs, TokenRange middle, const F& f) {
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    RankedRun run;
    for (; end < runs.size() && runs[end].number == runs[begin].number; ++end) {
      const TokenRange tokens = Intersect(middle, runs[end].tokens);
      run.num_middle += tokens.end - tokens.begin;
    }
    run.parts = runs.subspan(begin, end - begin);
    if (runs[begin].ranking != nullptr && run.num_middle > 0) f(run);
  }
}

// The heaviest of the run's tokens that are in the middle, at most n, ascending.
size_t ListRun(const RankedRun& run, TokenRange middle, size_t n, uint32_t* tokens) {
  size_t count = 0;
  for (const uint32_t row : run.parts[0].ranking->rows) {
    if (count == n) break;
    for (const HeadRun& part : run.parts) {
      const TokenRange seen = Intersect(middle, part.tokens);
      const uint64_t token = part.origin + row;  // Modulo 2^64: it may be none of the call's.
      if (token < seen.begin || token >= seen.end) continue;
      tokens[count++] = static_cast<uint32_t>(token);
      break;
    }
  }
  std::sort(tokens, tokens + count);
  return count;
}

}  // namespace

size_t ListStatic(std::span<const HeadRun> runs, TokenRange middle, size_t n, uint32_t* tokens) {
  uint64_t all = 0;
  ForEachRanked(runs, middle, [&all](const RankedRun& run) { all += run.num_middle; });
  uint64_t before = 0;
  size_t count = 0;
  ForEachRanked(runs, middle, [&](const RankedRun& run) {
    const uint64_t first = n * before / all;
    before += run.num_middle;
    count += ListRun(run, middle, n * before / all - first, tokens + count);
  });
  return count;
}

size_t DropStatic(std::span<const uint32_t> statics, uint32_t* tokens, size_t count) {
  if (statics.empty()) return count;
  size_t num_left = 0;
  auto next = statics.begin();
  for (size_t i = 0; i < count; ++i) {
    while (next != statics.end() && *next < tokens[i]) ++next;
    if (next == statics.end() || *next != tokens[i]) tokens[num_left++] = tokens[i];
  }
  return num_left;
}

}  // namespace attndb::attention
