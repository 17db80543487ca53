#include "attention/static_tokens.h"

#include <algorithm>
#include <bit>

#include "attention/call_util.h"

namespace attndb::attention {
namespace {

// The parts of one run that have a ranking, and how many tokens of the middle they hold.
struct RankedRun {
  std::span<const HeadRun> parts;
  uint64_t num_middle = 0;
};

// Calls f(run) for each run with a ranking, in order. Parts in front with moved tokens have no
// ranking.
template <typename F>
void ForEachRanked(std::span<const HeadRun> runs, TokenRange middle, const F& f) {
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    RankedRun run;
    if (runs[begin].ranking == nullptr) {
      end = begin + 1;
      continue;
    }
    for (; end < runs.size() && runs[end].number == runs[begin].number; ++end) {
      const TokenRange tokens = Intersect(middle, runs[end].tokens);
      run.num_middle += tokens.end - tokens.begin;
    }
    run.parts = runs.subspan(begin, end - begin);
    if (run.num_middle > 0) f(run);
  }
}

// Sets the bits of the run's heaviest tokens in the middle, at most n.
void MarkRun(const RankedRun& run, TokenRange middle, size_t n, uint64_t* bits) {
  for (const uint32_t row : run.parts[0].ranking->rows) {
    if (n == 0) return;
    for (const HeadRun& part : run.parts) {
      const TokenRange seen = Intersect(middle, part.tokens);
      const uint64_t token = part.origin + row;  // Modulo 2^64: it may be none of the call's.
      if (token < seen.begin || token >= seen.end) continue;
      bits[token / 64] |= uint64_t{1} << token % 64;
      --n;
      break;
    }
  }
}

}  // namespace

size_t ListStatic(std::span<const HeadRun> runs, TokenRange middle, size_t n,
                  const StaticRoom& room) {
  const size_t first_word = middle.begin / 64;
  const size_t end_word = std::max(first_word, NumStaticWords(middle.end));
  std::fill(room.bits + first_word, room.bits + end_word, uint64_t{0});
  uint64_t all = 0;
  ForEachRanked(runs, middle, [&all](const RankedRun& run) { all += run.num_middle; });
  uint64_t before = 0;
  ForEachRanked(runs, middle, [&](const RankedRun& run) {
    const uint64_t first = n * before / all;
    before += run.num_middle;
    MarkRun(run, middle, n * before / all - first, room.bits);
  });
  size_t count = 0;
  for (size_t word = first_word; word < end_word; ++word) {
    for (uint64_t left = room.bits[word]; left != 0; left &= left - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      room.tokens[count++] = static_cast<uint32_t>(word) * 64 + bit;
    }
  }
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
