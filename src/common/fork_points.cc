#include "common/fork_points.h"

#include <algorithm>

namespace attndb {

ForkPoint::ForkPoint(const ForkPoint* relative)
    : family_(relative != nullptr ? relative->family_ : std::make_shared<const char>()) {}

void ForkPoint::NoteStored(const Stored& stored) {
  MutexLock lock(&mutex_);
  std::erase(stored_, stored);
  if (stored_.size() == kMaxContexts) stored_.erase(stored_.begin());
  stored_.push_back(stored);
}

std::vector<ForkPoint::Stored> ForkPoint::stored() const {
  MutexLock lock(&mutex_);
  return {stored_.rbegin(), stored_.rend()};
}

void ForkPoints::Add(uint64_t num_tokens) {
  if (!all_.empty() && all_.back().num_tokens == num_tokens) return;
  const ForkPoint* const relative = all_.empty() ? nullptr : all_.back().point.get();
  auto point = std::make_shared<ForkPoint>(relative);
  if (all_.size() == kMaxPoints) all_.erase(all_.begin());
  all_.push_back({std::move(point), num_tokens});
}

void ForkPoints::Crop(uint64_t num_tokens) {
  for (SharedFork& fork : all_) fork.num_tokens = std::min(fork.num_tokens, num_tokens);
}

void ForkPoints::Forget(uint64_t num_tokens) {
  std::erase_if(all_, [=](const SharedFork& fork) { return fork.num_tokens <= num_tokens; });
}

}  // namespace attndb
