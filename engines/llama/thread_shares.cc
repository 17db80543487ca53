#include "engines/llama/thread_shares.h"

#include <time.h>

#include <algorithm>

namespace attndb::llama {
namespace {

double SecondsOf(clockid_t clock) {
  timespec time = {};
  (void)clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void ThreadShares::Begin() {
  for (Span& span : spans_) span = {};
}

void ThreadShares::Enter(int thread) {
  const auto idx = static_cast<size_t>(thread);
  if (idx >= spans_.size()) return;
  spans_[idx] = {.wall = -SecondsOf(CLOCK_MONOTONIC), .cpu = -SecondsOf(CLOCK_THREAD_CPUTIME_ID)};
}

void ThreadShares::Leave(int thread) {
  const auto idx = static_cast<size_t>(thread);
  if (idx >= spans_.size() || spans_[idx].wall == 0) return;
  spans_[idx].wall += SecondsOf(CLOCK_MONOTONIC);
  spans_[idx].cpu += SecondsOf(CLOCK_THREAD_CPUTIME_ID);
  spans_[idx].is_whole = true;
}

double ThreadShares::total() const {
  double total = 0;
  for (const Span& span : spans_) total += span.is_whole ? span.share() : 0;
  return total;
}

double ThreadShares::worst() const {
  double worst = 1;
  for (const Span& span : spans_) worst = std::min(worst, span.is_whole ? span.share() : 1);
  return worst;
}

}  // namespace attndb::llama
