// What passes of the model took lately, and how many tokens of prompts one may take beside replies.
//
// Model:   a pass with replies and n tokens of prompts takes as long as one without prompts, and n
//          times what a prompt's token adds; both are means of what was measured lately, so that
//          they follow prompts that deepen.
// Threads: none.
#ifndef ATTNDB_SERVER_BATCH_PASS_TIMES_H_
#define ATTNDB_SERVER_BATCH_PASS_TIMES_H_

#include <cstdint>

namespace attndb::server {

class PassTimes {
 public:
  // What a pass has run, and how long it took.
  void Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds);

  // Tokens of prompts, at most `most` and at least one, with which a pass takes at most
  // stall_factor times as long as without. Alone, prompts take `most`; before anything was
  // measured, an eighth of it.
  uint64_t PromptBudget(uint64_t num_replies, uint64_t most, double stall_factor) const;

  // What a prompt's token adds to a pass; 0 before one was run.
  double prompt_token_seconds() const { return prompt_token_seconds_; }

 private:
  double reply_pass_seconds_ = 0;  // A pass without prompts; 0 before one was run.
  double prompt_token_seconds_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PASS_TIMES_H_
