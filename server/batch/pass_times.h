// What passes of the model took lately, and how many tokens of prompts one may take beside replies.
//
// Factor:  while prompts wait, passes take at most stall_factor times as long, on the mean, as
//          those without prompts did when the first of them came, or as they do since, where that
//          is less. A pass that is faster than that saves the difference for later passes; a slower
//          one owes it, both up to what kSavingPasses passes leave. So the mean is kept even if a
//          pass was estimated wrongly. The replies' contexts grow meanwhile, which the prompt pays
//          for; it keeps a share of what a pass takes now, however little they leave, so that it
//          comes to an end: a tenth of that time at least, which is more than a factor near 1
//          allows.
// Chunks:  all that a prompt has read is read again by each pass that takes tokens of it. So they
//          are taken by the chunk, once enough was saved for it, or for as much as kSavingPasses
//          leave: no reply waits for longer than these at once, but for one token of a prompt that
//          alone takes longer, and where a reply says how long it may wait, no longer than that.
// Model:   a pass with replies and n tokens of prompts takes as long as one without prompts, and n
//          times what a prompt's token adds. The first is the median of passes without prompts
//          that had as many replies: one that something else slowed, as the arrival of a long
//          prompt does, changes nothing. The other is a mean of what was measured lately, so that
//          it follows prompts that deepen; a pass that took far longer than that counts for a few
//          times the mean.
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

// What the next pass may take of the prompts that wait.
struct PromptRoom {
  uint64_t tokens = 0;
  uint64_t chunk = 1;  // A prompt that has more left than `tokens` waits until they are so many.
};

class PassTimes {
 public:
  // REQUIRES: stall_factor >= 1.
  explicit PassTimes(double stall_factor) : stall_factor_(stall_factor) {}

  // What a pass has run, and how long it took.
  void Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds);

  // What may be taken of `most` tokens of prompts that wait; 0 where none waits. No tokens: the
  // pass is to be measured without. Alone, prompts take `most`; before the time of one was
  // measured, an eighth of it. `tpot_seconds`: what a reply may take at most, by its own wish; 0:
  // none says.
  PromptRoom Room(uint64_t num_replies, uint64_t most, double tpot_seconds = 0);

  // What a prompt's token adds to a pass; 0 before one was run.
  double prompt_token_seconds() const { return prompt_token_seconds_; }

 private:
  bool IsKnown(uint64_t num_replies) const;
  void LearnTokens(uint64_t num_tokens, double seconds);
  // A pass without prompts. REQUIRES: one was measured.
  double ReplyPassSeconds() const;
  // What a pass may take on the mean, above one without prompts. REQUIRES: one was measured.
  double RoomOfAPass() const;
  // What comes next finds the replies as they are then: nothing is saved, or owed.
  void EndPrompts();

  const double stall_factor_;
  uint64_t num_replies_ = 0;              // As many as the passes measured had.
  std::deque<double> reply_seconds_;      // The last passes without prompts, the oldest first.
  std::optional<double> before_seconds_;  // The least such median since prompts wait.
  double saved_seconds_ = 0;              // Likewise; below 0: owed.
  uint64_t num_passes_since_ = 0;         // With replies and prompts, since the last without.
  double prompt_token_seconds_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PASS_TIMES_H_
