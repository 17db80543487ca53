// Internal to graph: the state that a walk keeps for one q row: the keys found, and which to follow
// next.
//
// A queue is given scored keys, each once, and a set of followed keys:
//   Offer(batch, work)  takes in keys.
//   Next(followed)      a key to follow, not in the set; kNoKey: no key is worth it.
//   Finish(found)       writes the result.
// Threads: one thread.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_QUEUES_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_QUEUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "index/graph/graph_sight.h"
#include "index/graph/ordered_score.h"
#include "index/key_index.h"
#include "kernels/select.h"

namespace attndb::index {

struct Candidate {
  float score;
  uint32_t key;
};

// Keys and their scores; not owned.
struct ScoredBatch {
  const uint32_t* keys = nullptr;
  const float* scores = nullptr;
  size_t count = 0;
};

// Memory that queues may use while they take in a batch: room for its keys and kSelectSlack more.
struct OfferWork {
  uint32_t* indices = nullptr;
  Candidate* sorted = nullptr;
};

// Keeps the best keys, in order; all of them are followed.
class TopQueue {
 public:
  // `room` has room for `window` keys.
  void Start(const SearchSpec& spec, size_t window, Candidate* room) {
    k_ = spec.k;
    window_ = window;
    best_ = room;
    size_ = 0;
    next_ = 0;
  }

  // Sorts and merges the keys that are good enough: inserting them one by one took two thirds of a
  // search's time.
  void Offer(const ScoredBatch& batch, const OfferWork& work) {
    const bool is_full = size_ == window_;
    const float least = is_full ? best_[size_ - 1].score : -std::numeric_limits<float>::infinity();
    const size_t count = kernels::SelectRange(batch.scores, batch.count, least, work.indices);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t at = work.indices[i];
      const float score = batch.scores[at];
      work.sorted[i] = {Ordered(score), batch.keys[at]};
    }
    std::sort(work.sorted, work.sorted + count, IsBetter);
    Merge(work.sorted, std::min(count, window_));
  }

  uint32_t Next(const KeySet& followed) {
    while (next_ < size_ && followed.Has(best_[next_].key)) ++next_;
    return next_ < size_ ? best_[next_].key : kNoKey;
  }

  void Finish(FoundKeys* found) const {
    found->count = std::min(k_, size_);
    for (size_t i = 0; i < found->count; ++i) {
      found->tokens[i] = best_[i].key;
      found->scores[i] = best_[i].score;
    }
  }

 private:
  static bool IsBetter(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.key < b.key;
  }

  // Merges from the back, so that nothing is overwritten before it was moved.
  void Merge(const Candidate* added, size_t num_added) {
    size_t old_end = size_;
    size_t to = old_end + num_added;
    size_ = std::min(to, window_);
    while (num_added > 0) {
      const bool take_added = old_end == 0 || !IsBetter(added[num_added - 1], best_[old_end - 1]);
      const Candidate next = take_added ? added[num_added - 1] : best_[old_end - 1];
      num_added -= static_cast<size_t>(take_added);
      old_end -= static_cast<size_t>(!take_added);
      if (--to < size_) best_[to] = next;
    }
    next_ = std::min(next_, to);
  }

  size_t k_ = 0;
  size_t window_ = 0;
  size_t size_ = 0;
  size_t next_ = 0;  // All keys before it were followed.
  Candidate* best_ = nullptr;
};

// Shared by both walks of a range, the best-first walk and the walk in list order
// (graph_list_walk.h): the range moves up with the best score.
class RangeFound {
 public:
  void Start(const SearchSpec& spec, float best, FoundKeys* found) {
    beta_ = std::max(spec.beta, 0.0f);
    best_ = best;
    found_ = found;
  }

  bool InRange(float score) const { return score >= best_ - beta_; }
  void See(float score) { best_ = std::max(best_, score); }
  size_t size() const { return found_->count; }
  uint32_t key(size_t i) const { return found_->tokens[i]; }
  void Append(uint32_t key, float score) {
    found_->tokens[found_->count] = key;
    found_->scores[found_->count++] = score;
  }

  void Finish() {
    size_t count = 0;
    for (size_t i = 0; i < found_->count; ++i) {
      found_->tokens[count] = found_->tokens[i];
      found_->scores[count] = found_->scores[i];
      count += static_cast<size_t>(InRange(found_->scores[i]));
    }
    found_->count = count;
  }

 private:
  float beta_ = 0;
  float best_ = 0;
  FoundKeys* found_ = nullptr;
};

// Follows the keys in range, best first, and `effort` others.
class RangeQueue {
 public:
  // `room` has room for all visible keys.
  void Start(const SearchSpec& spec, size_t effort, float best, FoundKeys* found, Candidate* room) {
    range_.Start(spec, best, found);
    effort_ = effort;
    open_ = room;
    num_open_ = 0;
  }

  void Offer(const ScoredBatch& batch, const OfferWork&) {
    for (size_t i = 0; i < batch.count; ++i) OfferKey(batch.keys[i], batch.scores[i]);
  }

  uint32_t Next(const KeySet& followed) {
    while (num_open_ > 0) {
      const Candidate best = open_[0];
      const bool in_range = range_.InRange(best.score);
      if (!in_range && effort_ == 0) return kNoKey;
      std::pop_heap(open_, open_ + num_open_--, IsWorse());
      effort_ -= static_cast<size_t>(!in_range);
      if (!followed.Has(best.key)) return best.key;
    }
    return kNoKey;
  }

  void Finish(FoundKeys*) { range_.Finish(); }

 private:
  // An object, so that the heap functions are compiled with it; a function pointer would be called.
  struct IsWorse {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.score < b.score; }
  };

  void OfferKey(uint32_t key, float score) {
    range_.See(score);
    if (range_.InRange(score)) {
      range_.Append(key, score);
    } else if (effort_ == 0) {
      return;
    }
    open_[num_open_++] = {score, key};
    std::push_heap(open_, open_ + num_open_, IsWorse());
  }

  RangeFound range_;
  size_t effort_ = 0;  // Number of keys out of range that may still be followed.
  Candidate* open_ = nullptr;
  size_t num_open_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_QUEUES_H_
