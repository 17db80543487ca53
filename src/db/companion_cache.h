// What companions hold of stored segments, in memory, layer by layer, shared by all sessions: read
// from the segment's companion, or made from K and V where there is none yet, when a plan first
// asks for it; in memory that nothing else uses, and dropped when K and V of other layers need it.
//
// Form:    a kind of companion (companion_form.h) that also has
//            Head                      what it holds of a kv head; get() is null if that is nothing
//            MemoryBytes(segment, layer)
//            Read(companion, segment, layer), Build(segment, layer, spec, pin):
//            Result<vector<Head>>
//          One without Build is made by the background worker alone: nobody has it until then.
// Errors:  none that a query would see: where no memory is left, K and V are read instead, and a
//          companion that can't be read is as good as none.
// Threads: thread-safe. Two threads that come first both read or build, and one result is kept.
#ifndef ATTNDB_DB_COMPANION_CACHE_H_
#define ATTNDB_DB_COMPANION_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "db/companion_files.h"
#include "storage/kv/companion.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// Of one layer of a segment.
template <typename Head>
class ResidentHeads final : public storage::Resident {
 public:
  ResidentHeads(storage::Reservation reservation, std::shared_ptr<storage::ResidentGroup> group,
                std::vector<Head> heads)
      : Resident(std::move(reservation), std::move(group)), heads_(std::move(heads)) {}

  // Null for a head that has none, as one with NaN or Inf.
  auto head(uint32_t kv_head) const { return heads_[kv_head].get(); }

 private:
  const std::vector<Head> heads_;
};

template <typename Form>
class CompanionCache {
 public:
  using Heads = ResidentHeads<typename Form::Head>;
  // Each entry holds a file descriptor of its companion, if it has one.
  static constexpr size_t kMaxEntries = 256;

  // Layers handed out since the cache was made.
  struct Counters {
    uint64_t num_read = 0;   // From companions.
    uint64_t num_built = 0;  // From K and V.
  };

  // Pointers must outlive the cache. `on_built` is called with a segment that had no companion, and
  // of which one was made in memory, if it can be.
  CompanionCache(const Form* form, storage::MemoryBudget* budget, CompanionFiles* companions,
                 std::function<void(const storage::Segment&)> on_built)
      : form_(form), budget_(budget), companions_(companions), on_built_(std::move(on_built)) {}

  // Of a layer, of this spec, whose K and V are pinned; null if the segment is short, or memory is.
  std::shared_ptr<const Heads> Get(const storage::Segment& segment, LayerId layer,
                                   const LayerSpec& spec, const storage::LayerPin& pin)
      ATTNDB_EXCLUDES(mutex_);

  // Whether the segment is long enough for one.
  bool MayHave(const storage::Segment& segment) const {
    return segment.num_tokens() >= form_->kind().min_tokens;
  }

  Counters counters() const ATTNDB_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return counters_;
  }

 private:
  using CompanionPtr = std::shared_ptr<const storage::Companion>;
  using HeadList = std::vector<typename Form::Head>;
  static constexpr bool kBuilds = requires { &Form::Build; };
  // A companion that was not there is looked for again when one was published, or after so long:
  // another process may have written it.
  static constexpr int64_t kLookAgainNs = 1'000'000'000;
  struct Entry {
    std::shared_ptr<storage::ResidentGroup> group = std::make_shared<storage::ResidentGroup>();
    std::optional<int64_t> looked_ns;  // When a companion was looked for in vain,
    uint64_t looked_count = 0;         // ... and how many were published by then.
    std::vector<std::weak_ptr<const Heads>> layers;
    CompanionPtr companion;  // Null: not looked for, or none.
  };

  // Whether it is too early to look for the companion again. Notes that it is looked for, if not.
  bool LookedLately(Entry* entry) ATTNDB_REQUIRES(mutex_);
  // The segment's entry, with a slot for each layer.
  Entry& EntryOf(const storage::Segment& segment) ATTNDB_REQUIRES(mutex_);
  // Makes room for one more entry: forgets those whose layers are all gone, and closes the files of
  // the others if that is not enough.
  void Shrink() ATTNDB_REQUIRES(mutex_);
  Result<HeadList> ReadOrBuild(const storage::Segment& segment, LayerId layer,
                               [[maybe_unused]] const LayerSpec& spec,
                               [[maybe_unused]] const storage::LayerPin& pin,
                               CompanionPtr companion) ATTNDB_EXCLUDES(mutex_);

  const Form* const form_;
  storage::MemoryBudget* const budget_;
  CompanionFiles* const companions_;
  const std::function<void(const storage::Segment&)> on_built_;

  // A leaf, but for the budget's own mutex. Nothing is read or built under it.
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> entries_ ATTNDB_GUARDED_BY(mutex_);  // By segment id.
  Counters counters_ ATTNDB_GUARDED_BY(mutex_);
};

template <typename Form>
auto CompanionCache<Form>::Get(const storage::Segment& segment, LayerId layer,
                               const LayerSpec& spec, const storage::LayerPin& pin)
    -> std::shared_ptr<const Heads> {
  if (!MayHave(segment)) return nullptr;
  std::shared_ptr<storage::ResidentGroup> group;
  CompanionPtr companion;
  {
    MutexLock lock(&mutex_);
    Entry& entry = EntryOf(segment);
    if (std::shared_ptr<const Heads> heads = entry.layers[layer].lock()) {
      budget_->Touch(*heads);
      return heads;
    }
    group = entry.group;
    companion = entry.companion;
    if (!kBuilds && companion == nullptr && LookedLately(&entry)) return nullptr;
  }
  std::optional<storage::Reservation> reservation =
      budget_->ReserveIfFree(form_->MemoryBytes(segment, layer));
  if (!reservation) return nullptr;
  Result<HeadList> found = ReadOrBuild(segment, layer, spec, pin, std::move(companion));
  if (!found.ok()) return nullptr;
  auto heads =
      std::make_shared<const Heads>(*std::move(reservation), std::move(group), *std::move(found));
  {
    MutexLock lock(&mutex_);
    std::weak_ptr<const Heads>& slot = EntryOf(segment).layers[layer];
    if (std::shared_ptr<const Heads> other = slot.lock()) return other;
    slot = heads;
  }
  budget_->Keep(heads);
  return heads;
}

template <typename Form>
auto CompanionCache<Form>::ReadOrBuild(const storage::Segment& segment, LayerId layer,
                                       [[maybe_unused]] const LayerSpec& spec,
                                       [[maybe_unused]] const storage::LayerPin& pin,
                                       CompanionPtr companion) -> Result<HeadList> {
  if (companion == nullptr) {
    companion = companions_->Open(segment, form_->kind());
    MutexLock lock(&mutex_);
    EntryOf(segment).companion = companion;
  }
  if (companion != nullptr) {
    Result<HeadList> heads = form_->Read(*companion, segment, layer);
    MutexLock lock(&mutex_);
    if (heads.ok()) {
      ++counters_.num_read;
      return heads;
    }
    EntryOf(segment).companion = nullptr;
    lock.Unlock();
    companions_->ReportDamage(companion->name(), heads.status());
  }
  if constexpr (kBuilds) {
    Result<HeadList> heads = form_->Build(segment, layer, spec, pin);
    if (!heads.ok()) return heads;
    on_built_(segment);
    MutexLock lock(&mutex_);
    ++counters_.num_built;
    return heads;
  } else {
    on_built_(segment);
    return Status::NotFound("segment " + std::to_string(segment.id()) + " has no " +
                            form_->kind().name + " yet");
  }
}

template <typename Form>
bool CompanionCache<Form>::LookedLately(Entry* entry) {
  const int64_t now_ns = SteadyNowNanos();
  const uint64_t count = companions_->num_published();
  if (entry->looked_ns && count == entry->looked_count &&
      now_ns - *entry->looked_ns < kLookAgainNs) {
    return true;
  }
  entry->looked_ns = now_ns;
  entry->looked_count = count;
  return false;
}

template <typename Form>
auto CompanionCache<Form>::EntryOf(const storage::Segment& segment) -> Entry& {
  const auto found = entries_.find(segment.id());
  if (found != entries_.end()) return found->second;
  Shrink();
  Entry& entry = entries_[segment.id()];
  entry.layers.resize(segment.shape().layers.size());
  return entry;
}

template <typename Form>
void CompanionCache<Form>::Shrink() {
  if (entries_.size() < kMaxEntries) return;
  std::erase_if(entries_, [](const auto& item) {
    return std::ranges::all_of(item.second.layers, [](const auto& slot) { return slot.expired(); });
  });
  if (entries_.size() < kMaxEntries) return;
  for (auto& [segment, entry] : entries_) entry.companion = nullptr;
}

}  // namespace attndb::internal

#endif  // ATTNDB_DB_COMPANION_CACHE_H_
