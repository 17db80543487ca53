// Runs a call: cuts it into items, hands these to any number of threads, and has each unit finished
// when its last item is done. Knows operators by their interface only.
//
//   runner.Begin(call, operators);              // one thread
//   runner.RunPart(part);                       // each of num_parts threads, in any order
//   runner.End();                               // after all of them
//   runner.cost();
//
// Bits:    equal for equal call, chain of runs, ISA and num_parts, whatever thread does what.
// Waiting: for rows alone, and then a thread takes other items, as long as there are some. Who
//          finishes the last item of a unit finishes the unit; where that goes by q head, threads
//          that have run out of items take some of the heads.
// Errors:  that of a read ends the call: items that are not begun are left out, and what was
//          written is not defined.
// Memory:  scratch is leased from Begin to End; calls like those before allocate nothing.
#ifndef ATTNDB_ATTENTION_CALL_RUNNER_H_
#define ATTNDB_ATTENTION_CALL_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attention/call_cost.h"
#include "attention/call_view.h"
#include "attention/operator.h"
#include "attention/scratch_pool.h"

namespace attndb::attention {

// Numbers of a runner's operators.
struct OperatorChoice {
  size_t of_plan = 0;         // The call is cut as this one asks.
  std::vector<size_t> heads;  // [num_kv_heads]: what runs each.
};

class CallRunner {
 public:
  // `pool` must outlive it.
  CallRunner(std::vector<std::unique_ptr<Operator>> operators, ScratchPool* pool)
      : operators_(std::move(operators)), pool_(pool) {}

  // Plans the work of `call` and makes room for it.
  // Errors: kResourceExhausted (scratch). REQUIRES: views checked; no other call under way.
  Status Begin(const LayerCall& call, const OperatorChoice& choice);

  // Works until no item is left. REQUIRES: part < num_parts; each part once.
  Status RunPart(uint32_t part);

  // Returns the scratch. What the call cost is known until the next one.
  void End() { scratch_.Return(); }

  CallCost cost() const;
  CallCost head_cost(uint32_t kv_head) const;  // What of it one kv head cost.
  // Of a plan that bounds: what it leaves out, at most ([q.rows()][num_q_heads]); -1 where the head
  // ran `full`. Else empty.
  std::span<const HeadBound> bounds() const { return operators_[of_plan_]->bounds(); }

 private:
  // Where a unit stands.
  struct Progress {
    // Ranges that are not done: the release of each decrement pairs with the acquire of the last,
    // which reads the other ranges' results.
    std::atomic<uint32_t> remaining;
    // The q head that is to be finished next, once all ranges are done; the group's size or more
    // before that, and when none is left. Its release pairs with the acquire of who takes a head.
    std::atomic<uint32_t> next_head;
  };

  // Runs items while one of the part's is parked.
  class Meanwhile final : public storage::OtherWork {
   public:
    Meanwhile(CallRunner* runner, Part* part) : runner_(runner), part_(part) {}
    bool TakeSome() override;
    const Status& status() const { return status_; }

   private:
    CallRunner* const runner_;
    Part* const part_;  // What it runs them with.
    Status status_;     // Of the first that failed.
  };

  void ResetParts();
  Status TakeScratch();
  void TakeFrom(Arena* arena);
  void TakePart(Part* part, Arena* arena) const;
  Operator& OperatorOf(uint32_t unit) const { return *of_head_[view_.unit(unit).kv_head]; }
  // Null: none is left.
  const WorkItem* NextItem();
  void LeaveOutItems() { next_item_.store(view_.work().items.size(), std::memory_order_relaxed); }
  Status RunItems(Part* part);
  Status RunItem(const WorkItem& item, Part* part);
  // Finishes q heads of a unit until none is left, if its ranges are done.
  Status FinishHeads(uint32_t unit, Part* part);
  void LoadQueries(uint32_t unit, Part* part) const;
  void BookCost(uint32_t unit, Part* part) const;

  const std::vector<std::unique_ptr<Operator>> operators_;
  ScratchPool* const pool_;
  CallView view_;
  size_t of_plan_ = 0;
  std::vector<Operator*> of_head_;  // [num_kv_heads]
  std::vector<Operator*> in_call_;  // Each that a head has, once.
  std::vector<Part> parts_;         // [depth][part of the call]
  // What runs while the part of that number is parked; parts of the last depth have none.
  std::vector<Meanwhile> meanwhile_;
  ScratchLease scratch_;
  Progress* progress_ = nullptr;  // [units], in the scratch.
  // Items are handed out in order; what they write is published by Progress.
  std::atomic<size_t> next_item_ = 0;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CALL_RUNNER_H_
