// How long sessions may attend in a pass, where requests state a time per token ([Alaya] 9.1.1).
//
// Method:  what a pass takes outside attention is measured: its time, less that of the attention of
//          its sessions. What is left of the tightest objective, less the attention of sessions
//          that state none, is shared evenly by those that do, whose plan becomes
//          `auto(tpot=SHARE)`: the smallest error whose attention is predicted to take no longer. A
//          share changes only when it is off by a quarter.
// Limits:  where nothing is left, a session keeps a share of kLeastShare: its tokens are late.
// Threads: one thread at a time.
#ifndef ATTNDB_SERVER_BATCH_PACER_H_
#define ATTNDB_SERVER_BATCH_PACER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/session.h"

namespace attndb::server {

inline constexpr double kLeastShare = 50e-6;  // Seconds of attention a token.

// A session of a pass of replies.
struct PacedSession {
  Session* session = nullptr;
  double tpot_seconds = 0;  // 0: it states none.
  double* share = nullptr;  // What its plan has of it now; 0: its plan is of before.
};

// Seconds of attention for each session that states an objective; `attention`: what each session
// took in the last pass, by the threads of the engine. Where none states one: 0.
double AttentionShare(double pass_seconds, std::span<const PacedSession> sessions,
                      std::span<const double> attention);

// `auto` with an objective of so many seconds.
std::string PlanFor(double seconds);

class Pacer {
 public:
  explicit Pacer(uint32_t num_threads) : num_threads_(num_threads) {}

  // After each pass of replies alone: what prompts beside them take is no measure of these. Sets
  // plans anew, every few passes.
  void Learn(double pass_seconds, std::span<const PacedSession> sessions);

 private:
  double AttentionOf(const Session& session) const;

  const uint32_t num_threads_;
  uint64_t num_passes_ = 0;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_PACER_H_
