// The time that a model takes to read a text on this machine. It is measured for a prediction, and
// learned from imports.
//
// Method:  a token's time has a constant part (the weights), and a part that grows with the tokens
//          before it (attention). A prediction measures the first on the text's own beginning, in
//          the machine's present state: the load by other programs differs from day to day. The
//          second part was learned by the last long import, and is kept in the user's cache; before
//          that, the model's shape determines it.
// Errors:  of MeasurePrefill: kCancelled (interrupted); as DB::Open, CreateSession and Prefill.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_PREFILL_COST_H_
#define ATTNDB_CLI_COMMON_PREFILL_COST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"

namespace attndb::cli {

struct PrefillCost {
  double token_seconds = 0;  // The first token takes so long.
  double growth = 0;         // Each earlier token adds this share of it.

  // The time that tokens [begin, end) take behind the tokens before them.
  double Seconds(uint64_t begin, uint64_t end) const;
};

// The times of one prefill, pass by pass.
class PrefillTimes {
 public:
  // `num_tokens` of the text are read, and the clock says `seconds`.
  void Add(uint64_t num_tokens, double seconds);
  // The cost that fits these times best. Empty: there are too few of them, or the text is too short
  // for attention to show.
  std::optional<PrefillCost> Fit() const;

 private:
  struct Time {
    uint64_t num_tokens = 0;
    double seconds = 0;
  };
  std::vector<Time> times_;
};

// PrefillCost::growth by the model's shape alone.
double GrowthOfShape(const ModelSpec& spec, uint64_t num_parameters);

// Reads the beginning of `tokens` into a store of its own, for some two seconds at most where the
// model is not slow, and predicts from that. REQUIRES: tokens are not empty.
Result<PrefillCost> MeasurePrefill(llama::LlamaEngine* engine, std::span<const TokenId> tokens);

// Measures one model for the texts of a list.
class PrefillMeter {
 public:
  // Measures at the first text, and again where a text is much longer than that: few tokens take
  // more time each. As MeasurePrefill.
  Result<PrefillCost> CostFor(llama::LlamaEngine* engine, std::span<const TokenId> tokens);

 private:
  PrefillCost cost_;
  size_t num_tokens_ = 0;  // The measured tokens; 0: nothing is measured yet.
};

// Keeps the cost that an import has shown for the engine's model.
void KeepPrefillCost(const llama::LlamaEngine& engine, const PrefillTimes& times);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_PREFILL_COST_H_
