// Base class of operators that attend to tokens without choosing among them: K and V as stored,
// float32 arithmetic, blocked for many q rows, shared by a group for few.
//
// Bits:    tokens are folded by tiles and blocks that lie where a token's number says
//          (token_blocks.h), and a row's state does not depend on the rows beside it
//          (kernels/attend.h): so neither does the result, nor on how a call is cut.
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_STREAMING_H_
#define ATTNDB_ATTENTION_STREAMING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/operator.h"

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
    // [rows of a unit * group]: the first token of some that a q row sees, and the token after the
    // last of them.
    uint32_t* lo = nullptr;
    uint32_t* hi = nullptr;
    kernels::StateRows states;  // [rows of a unit * group]: of the block under way.
  };

  // Tokens that rows of the unit see but do not attend to.
  virtual TokenRange LeftOut(const WorkUnit& /*unit*/) const { return {}; }

  // The tokens of an item: whole blocks, but for the unit's first and last token.
  TokenRange TokensOf(const WorkItem& item) const;
  // Where blocks are merged if parts share the unit: the states of each by itself.
  kernels::StateRows StatesOfBlock(uint32_t unit, uint64_t block) const;
  // Makes the states empty that RunItem merges blocks into.
  void InitItem(const WorkItem& item, TokenRange tokens, Part* part) const;

  const CallView* call_ = nullptr;
  std::vector<Scratch> parts_;
  uint64_t num_blocks_ = 0;    // Blocks of the call's tokens.
  kernels::StateRows shared_;  // [unit][block][rows of a unit * group]
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_STREAMING_H_
