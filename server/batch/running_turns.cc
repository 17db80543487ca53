#include "server/batch/running_turns.h"

#include <algorithm>

namespace attndb::server {

bool RunningTurns::IsGone(const Entry& entry) {
  return std::ranges::all_of(entry.choices,
                             [](const std::weak_ptr<Turn>& turn) { return turn.expired(); });
}

void RunningTurns::Add(const std::shared_ptr<Turn>& turn, bool is_controlled) {
  Entry entry = {.choices = {turn}, .is_controlled = is_controlled};
  entry.choices.insert(entry.choices.end(), turn->choices().begin(), turn->choices().end());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (entries_.size() >= num_at_sweep_) {
    std::erase_if(entries_, [](const auto& item) { return IsGone(item.second); });
    num_at_sweep_ = std::max<size_t>(64, 2 * entries_.size());
  }
  entries_.emplace(Key(turn->request().tenant, turn->id()), std::move(entry));
}

RunningTurns::Found RunningTurns::EndThinking(const std::string& tenant, const std::string& id) {
  Found found = Found::kNone;
  std::vector<std::shared_ptr<Turn>> held;  // Let go of without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [begin, end] = entries_.equal_range({tenant, id});
  for (auto item = begin; item != end; ++item) {
    for (const std::weak_ptr<Turn>& weak : item->second.choices) {
      held.push_back(weak.lock());
      const std::shared_ptr<Turn>& turn = held.back();
      if (turn == nullptr) continue;
      if (!item->second.is_controlled) {
        if (found == Found::kNone) found = Found::kFixed;
        continue;
      }
      turn->EndThinking();
      found = Found::kDone;
    }
  }
  return found;
}

}  // namespace attndb::server
