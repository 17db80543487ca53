// The workload of a simulation: conversations, their turns, and their times.
//
// Units:   seconds from the beginning of the simulation; tokens.
// Threads: values; pure functions.
// Source:  AttentionStore (arXiv:2403.19708) 2.3, 4.1 and 4.2, which give the shares of
//          conversations by turns and length, and Poisson arrivals. The paper leaves open the tail
//          of turns, the tokens of a turn, and the share of the prompt: these were fitted to the
//          paper's hit rates (docs/tiers.md). Synthetic: contains no real conversation.
#ifndef ATTNDB_SIMULATE_WORKLOAD_H_
#define ATTNDB_SIMULATE_WORKLOAD_H_

#include <cstdint>
#include <vector>

namespace attndb::tier {

// Comes at `not_before`, or `pause` after the previous turn's answer, whichever is later.
struct Turn {
  double not_before = 0;
  float pause = 0;
  uint32_t new_tokens = 0;  // The prompt's, without history.
  uint32_t answer_tokens = 0;
};

struct Conversation {
  uint64_t first_turn = 0;  // Index of Workload::turns.
  uint32_t num_turns = 0;
};

struct Workload {
  std::vector<Conversation> conversations;  // In the order in which they begin.
  std::vector<Turn> turns;                  // By conversation.
};

struct SyntheticOptions {
  uint64_t num_conversations = 9000;
  double conversations_per_second = 1.0;
  double think_seconds = 60;      // Mean of an exponential distribution.
  double turn_tokens = 2600;      // Tokens of a turn, the median of conversations.
  double new_token_share = 0.06;  // Share of the prompt in them.
  uint64_t seed = 1;
};

// ShareGPT's shape: 22 % of conversations have one turn. The others have 2 to 12, with
// geometrically falling shares; the mean of all is 3.51. Turns of a conversation have similar
// lengths.
Workload SyntheticWorkload(const SyntheticOptions& options);

}  // namespace attndb::tier

#endif  // ATTNDB_SIMULATE_WORKLOAD_H_
