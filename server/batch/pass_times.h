// What passes of the model took lately, and how many tokens of prompts one may take beside replies.
//
// Factor:  while prompts wait, passes take at most stall_factor times as long, on the mean, as
//          those without prompts did when the first of them came. What a pass leaves of that is
//          saved, or owed, whatever the reason: so that the mean comes out whatever a pass was
//          thought to take. The replies' contexts grow meanwhile, which the prompt pays for; where
//          they have grown so much that little is left, it keeps a share of what a pass takes now,
//          so that it comes to an end.
// Chunks:  all that a prompt has read is read again by each pass that takes tokens of it. So they
//          are taken by the chunk, once enough was saved for it, or for as much as a few passes
//          save: no reply waits for longer than these at once.
// Model:   a pass with replies and n tokens of prompts takes as long as one without prompts, and n
//          times what a prompt's token adds. The first is the median of passes without prompts
//          that had as many replies: one that something else slowed, as the arrival of a long
//          prompt does, changes nothing. The other is a mean of what was measured lately, so that
//          it follows prompts that deepen.
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
  // REQUIRES: stall_factor >= 1.
  explicit PassTimes(double stall_factor) : stall_factor_(stall_factor) {}

  // What a pass has run, and how long it took.
  void Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds);

  // Tokens of the prompts that wait, at most `most`, that the next pass may take: none, where it
  // is to be measured without, or where too little was saved for a chunk. Alone, prompts take
  // `most`; before the time of one was measured, an eighth of it.
  uint64_t PromptBudget(uint64_t num_replies, uint64_t most);
  // No prompt waits: the next one that comes finds the replies as they are then.
  void EndPrompts();

  // What a prompt's token adds to a pass; 0 before one was run.
  double prompt_token_seconds() const { return prompt_token_seconds_; }

 private:
  bool IsKnown(uint64_t num_replies) const;
  // A pass without prompts. Precondition: one was measured. As the next.
  double ReplyPassSeconds() const;
  // What a pass may take on the mean, above one without prompts.
  double RoomOfAPass() const;
  // The most that is saved, or owed.
  double MostSaved() const;

  const double stall_factor_;
  uint64_t num_replies_ = 0;              // As many as the passes measured had.
  std::deque<double> reply_seconds_;      // The last passes without prompts, the oldest first.
  std::optional<double> before_seconds_;  // Such a pass when the first prompt came that waits.
  double saved_seconds_ = 0;              // Since then.
  uint64_t num_passes_since_ = 0;         // With replies and prompts, since the last without.
  double prompt_token_seconds_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PASS_TIMES_H_
