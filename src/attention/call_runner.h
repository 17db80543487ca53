// Runs a call: cuts it into items, hands these to any number of threads, and finishes each unit
// when its last item is done. It knows operators by their interface only.
//
//   runner.Begin(call, operators);              // one thread
//   runner.RunPart(part);                       // each of num_parts threads, in any order
//   runner.End();                               // after all of them
//   runner.cost();
//
// Bits:    equal for equal call, chain of runs, ISA and num_parts, whichever threads run the items.
// Waiting: only for rows. A waiting thread runs other items, as long as there are some. The thread
//          that runs the last item of a unit finishes the unit. Operators that finish by q head let
//          threads without items take some of the heads.
// Errors:  an error of a read ends the call: items that have not begun are left out, and the output
//          is undefined.
// Memory:  scratch is leased from Begin to End; a call like earlier ones allocates nothing.
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

// The operators that run a call, by their numbers in the runner.
struct OperatorChoice {
  size_t of_plan = 0;         // The operator of the plan; it decides how the call is cut.
  std::vector<size_t> heads;  // [num_kv_heads]: the operator that runs each head.
};

class CallRunner {
 public:
  // `pool` must outlive it.
  CallRunner(std::vector<std::unique_ptr<Operator>> operators, ScratchPool* pool)
      : operators_(std::move(operators)), pool_(pool) {}

  // Cuts the work of `call` into items and leases scratch for it. Errors: kResourceExhausted
  // (scratch). REQUIRES: views checked; no other call under way.
  Status Begin(const LayerCall& call, const OperatorChoice& choice);

  // Runs items until none is left. REQUIRES: part < num_parts; each part once.
  Status RunPart(uint32_t part);

  // Returns the scratch. cost() stays valid until the next call.
  void End() { scratch_.Return(); }

  CallCost cost() const;
  CallCost head_cost(uint32_t kv_head) const;  // The part of cost() of one kv head.
  // The bounds, [q.rows()][num_q_heads], if the plan bounds the tokens that it leaves out; -1 for
  // heads that ran `full`. Else empty.
  std::span<const HeadBound> bounds() const { return operators_[of_plan_]->bounds(); }

 private:
  // The progress of a unit.
  struct Progress {
    // Number of ranges that are not done. The release of each decrement pairs with the acquire of
    // the last, whose thread reads the other ranges' results.
    std::atomic<uint32_t> remaining;
    // The q head that is to be finished next, once all ranges are done; the group's size or more
    // before that, and when none is left. Its release pairs with the acquire of the thread that
    // takes a head.
    std::atomic<uint32_t> next_head;
  };

  // Runs items while another item of the same thread is parked.
  class Meanwhile final : public storage::OtherWork {
   public:
    Meanwhile(CallRunner* runner, Part* part) : runner_(runner), part_(part) {}
    bool TakeSome() override;
    const Status& status() const { return status_; }

   private:
    CallRunner* const runner_;
    Part* const part_;  // The part that it runs items with.
    Status status_;     // Status of the first item that failed.
  };

  void ResetParts();
  Status TakeScratch();
  void TakeFrom(Arena* arena);
  void TakePart(Part* part, Arena* arena) const;
  Operator& OperatorOf(uint32_t unit) const { return *of_head_[view_.unit(unit).kv_head]; }
  // The next item; null if none is left.
  const WorkItem* NextItem();
  void LeaveOutItems() { next_item_.store(view_.work().items.size(), std::memory_order_relaxed); }
  Status RunItems(Part* part);
  Status RunItem(const WorkItem& item, Part* part);
  // Finishes q heads of a unit until none is left, if the unit's ranges are done.
  Status FinishHeads(uint32_t unit, Part* part);
  void LoadQueries(uint32_t unit, Part* part) const;
  void BookCost(uint32_t unit, Part* part) const;

  const std::vector<std::unique_ptr<Operator>> operators_;
  ScratchPool* const pool_;
  CallView view_;
  size_t of_plan_ = 0;
  std::vector<Operator*> of_head_;  // [num_kv_heads]
  std::vector<Operator*> in_call_;  // Each operator of of_head_, once.
  std::vector<Part> parts_;         // [depth][part of the call]
  // The work that runs while the part with the same number is parked; parts of the last depth have
  // none.
  std::vector<Meanwhile> meanwhile_;
  ScratchLease scratch_;
  Progress* progress_ = nullptr;  // [units], in the scratch.
  // Items are handed out in order; Progress publishes their results.
  std::atomic<size_t> next_item_ = 0;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CALL_RUNNER_H_
