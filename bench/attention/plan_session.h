// One plan in a benchmark: a session on the stored tokens that steps through the last ones, and the
// outputs of its steps.
//
// Errors:  of Session.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_ATTENTION_PLAN_SESSION_H_
#define ATTNDB_BENCH_ATTENTION_PLAN_SESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/session.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

// Rows of the last tokens: [row][layer].
struct StepRows {
  std::vector<std::vector<std::vector<float>>> k, v, q;  // [row][layer][values]

  static Result<StepRows> Read(HeadSource* source, uint64_t num_rows);
};

// The outputs of one step, by layer.
struct StepOutput {
  std::vector<std::vector<float>> out;           // [layer][q head, v_head_dim]
  std::vector<std::vector<float>> lse;           // [layer][q head]
  std::vector<std::vector<double>> mass_bounds;  // As lse: bounds of the mass left out; or empty.
  // As lse: bounds of what the output is off by; or empty.
  std::vector<std::vector<double>> out_bounds;
  double ms = 0;  // Milliseconds that the attends took.
  double bytes_touched = 0;
};

class PlanSession {
 public:
  PlanSession(const HeadInfo* info, Session session)
      : info_(info), session_(std::move(session)), num_stored_(session_.num_tokens()) {}

  // Appends row `row` as the next token and attends.
  Status Step(const StepRows& rows, size_t row, StepOutput* output);
  // Waits until the derived objects that the plan reads are there, as far as they can be.
  Status AwaitDerived();
  // Forgets what ran so far.
  Status ForgetRan() { return session_.SetPlan(session_.Explain().plan); }
  Explain GetExplain() const { return session_.Explain(); }
  // Forgets the rows that were stepped through.
  Status Rewind() { return session_.Crop(num_stored_); }

  // Critical tokens of a q head, mean over all steps and the layers without a sliding window.
  double SelectedMean() const;

 private:
  const HeadInfo* info_;  // Not owned.
  Session session_;
  uint64_t num_stored_;
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_ATTENTION_PLAN_SESSION_H_
