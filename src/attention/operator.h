// The interface of an operator: one way to attend to the tokens of a kv head. Each operator has a
// file of its own; the registry decides which of them runs a head (attention/registry.h).
//
// Phases:  a call is cut into units, units into ranges (work_plan.h). RunItem reads one range of a
//          unit. When all ranges of a unit are done, Finish does the work that needs them all, as a
//          whole or by q head. Reads that depend on earlier reads belong in Finish.
// Scratch: the memory that TakeShared and TakePart take. Each is called twice per call: with an
//          arena that measures, then with one that has the memory.
// Errors:  those of reads.
// Parking: while RunItem or Finish waits for rows, its thread may call them for other items, with
//          another part.
// Threads: as many threads as the call has parts may call RunItem and Finish, each with its own
//          parts. One thread calls everything else, while no call is under way.
#ifndef ATTNDB_ATTENTION_OPERATOR_H_
#define ATTNDB_ATTENTION_OPERATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/arena.h"
#include "attention/call_view.h"
#include "attention/mass_bound.h"
#include "attention/work_plan.h"
#include "attndb/status.h"

namespace attndb::attention {

class Operator {
 public:
  virtual ~Operator() = default;

  // How a call is cut whose plan this operator runs. All heads of the call are cut alike.
  virtual WorkCut cut() const = 0;
  // Whether Finish is called once for each q head of a unit of one row, instead of once for all.
  // Then whichever threads are free finish the heads of a shared unit.
  virtual bool finishes_by_head() const { return false; }

  // Begins a call, which outlives all calls that follow until the next Begin.
  virtual void Begin(const CallView& call) = 0;
  // Takes the scratch that all parts share. Called if units have several ranges.
  virtual void TakeShared(Arena* /*arena*/) {}
  // Takes the scratch of one part.
  virtual void TakePart(uint32_t part, Arena* arena) = 0;

  // Runs one range of a unit. REQUIRES: part->q holds the unit's rows.
  virtual Status RunItem(const WorkItem& item, Part* part) = 0;
  // Finishes a unit, or one of its q heads, after all of its ranges. REQUIRES: as RunItem; the part
  // is the one that ran the unit, if units have one range.
  virtual Status Finish(uint32_t /*unit*/, uint32_t /*group_head*/, Part* /*part*/) {
    return Status::Ok();
  }

  // The bounds of the last call, [q.rows()][num_q_heads], if its plan bounds the tokens that it
  // leaves out. Else empty.
  virtual std::span<const HeadBound> bounds() const { return {}; }
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_OPERATOR_H_
