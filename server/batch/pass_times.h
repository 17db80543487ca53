// What passes of the model took lately, and how many tokens of prompts one may take beside replies.
//
// Model:   a pass with replies and n tokens of prompts takes as long as one without prompts, and n
//          times what a prompt's token adds. The first is the median of passes without prompts
//          that had as many replies: one that something else slowed, as the arrival of a long
//          prompt does, changes nothing. The other is a mean of what was measured lately, so that
//          it follows prompts that deepen.
// Factor:  of what the replies took before the first prompt came that waits now: their contexts
//          grow while it is read, which the prompt pays for. Where they have grown so much that
//          little is left, a prompt keeps a share of what a pass takes now, so that it comes to an
//          end.
// Upkeep:  while prompts are read, a pass goes without them every now and then, to be measured: at
//          once where the number of replies has changed, and the more seldom the more were
//          measured, down to one in 28.
// Threads: none.
#ifndef ATTNDB_SERVER_BATCH_PASS_TIMES_H_
#define ATTNDB_SERVER_BATCH_PASS_TIMES_H_

#include <cstdint>
#include <deque>
#include <optional>

namespace attndb::server {

class PassTimes {
 public:
  // What a pass has run, and how long it took.
  void Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds);

  // Tokens of the prompts that wait, at most `most`, with which the next pass takes at most
  // stall_factor times as long as one without did when the first of them came, four fifths of what
  // that leaves being planned for: at least one, or none, where it is to be measured without.
  // Alone, prompts take `most`; before the time of one was measured, an eighth of it.
  uint64_t PromptBudget(uint64_t num_replies, uint64_t most, double stall_factor);
  // No prompt waits: the next one that comes finds the replies as they are then.
  void EndPrompts() { before_seconds_.reset(); }

  // What a prompt's token adds to a pass; 0 before one was run.
  double prompt_token_seconds() const { return prompt_token_seconds_; }

 private:
  // A pass without prompts. Precondition: one was measured.
  double ReplyPassSeconds() const;
  bool IsKnown(uint64_t num_replies) const;

  uint64_t num_replies_ = 0;              // As many as the passes measured had.
  std::deque<double> reply_seconds_;      // The last passes without prompts, the oldest first.
  std::optional<double> before_seconds_;  // Such a pass when the first prompt came that waits.
  uint64_t num_passes_since_ = 0;  // With replies and prompts, since the last without prompts.
  double prompt_token_seconds_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PASS_TIMES_H_
