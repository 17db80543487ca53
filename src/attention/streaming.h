// Base class of operators that attend to all of their tokens: K and V as stored, float32
// arithmetic, blocked for many q rows, shared by a group for few.
//
// Bits:    tokens are folded by tiles and blocks, which a token's index determines
//          (token_blocks.h). A row's state does not depend on the rows beside it
//          (kernels/attend.h). So the result depends neither on these nor on how a call is cut.
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_STREAMING_H_
#define ATTNDB_ATTENTION_STREAMING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/operator.h"
#include "attention/token_blocks.h"

namespace attndb::attention {

class Streaming : public Operator {
 public:
  void Begin(const CallView& call) override;
  void TakeShared(Arena* arena) override;
  void TakePart(uint32_t part, Arena* arena) override;
  Status RunItem(const WorkItem& item, Part* part) override;
  Status Finish(uint32_t unit, uint32_t group_head, Part* part) override;

 protected:
  const CallView& call() const { return *call_; }

 private:
  class Fold;

  struct Scratch {
    void* packed = nullptr;     // Scratch of kernels::AttendBlock.
    std::byte* tile = nullptr;  // K, then V, of a tile that lies in several runs.
    // [rows of a unit * group]: of some tokens, the first that a q row sees and the one after the
    // last.
    uint32_t* lo = nullptr;
    uint32_t* hi = nullptr;
    kernels::StateRows states;  // [rows of a unit * group]: of the block under way.
  };

  // Tokens that rows of the unit see but do not attend to.
  virtual TokenRange LeftOut(const WorkUnit& /*unit*/) const { return {}; }

  // The tokens of an item: whole blocks, except at the unit's first and last token.
  TokenRange TokensOf(const WorkItem& item) const;
  // The states that a block is merged into if parts share its unit.
  kernels::StateRows StatesOfBlock(uint32_t unit, uint64_t block) const;
  // Calls f(its states) for each block of the unit that overlaps `tokens`, in order. Skips blocks
  // that are left out whole. REQUIRES: parts share the unit.
  template <typename F>
  void ForEachBlock(uint32_t unit, TokenRange tokens, const F& f) const;

  const CallView* call_ = nullptr;
  std::vector<Scratch> parts_;
  TokenBlocks blocks_;
  uint64_t blocks_max_ = 0;    // Blocks of a unit, at most.
  kernels::StateRows shared_;  // [unit][block of the unit][rows of a unit * group]
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_STREAMING_H_
