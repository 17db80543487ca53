// With how many threads the engine's next pass runs: as many as the machine gives it cores.
//
// ggml's threads wait for each other some twenty times a layer, and turn in place meanwhile: where
// one of them shares its core with another process, all others wait for it, and a pass takes a
// multiple of what fewer threads take. So how much of a core each thread got is looked at after
// each pass. Where it was less than a whole one, fewer threads are tried, as many as there were
// cores; now and then more are tried again. What takes less time a pass stays. On an idle machine
// nothing is tried.
//
// Cost:    a try that did not pay is not repeated before 50 times what it cost have passed.
// Threads: one thread at a time. It has no clock of its own: time is what passes took.
#ifndef ATTNDB_ENGINES_LLAMA_THREAD_CHOICE_H_
#define ATTNDB_ENGINES_LLAMA_THREAD_CHOICE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engines/llama/llama_engine.h"

namespace attndb::llama {

// One pass through the model.
struct PassTime {
  uint64_t num_rows = 0;  // Its tokens.
  double seconds = 0;
  // CPU time of its threads over wall time: of all, and of the one that got least. Where that is
  // not known: num_threads and 1.
  double cores_given = 0;
  double worst_share = 1;
};

class ThreadChoice {
 public:
  // REQUIRES: most > 0.
  explicit ThreadChoice(uint32_t most) : most_(most), chosen_(most) {}

  // Threads of the next pass, of `num_rows` tokens.
  uint32_t Next(uint64_t num_rows);
  // What the pass took, with as many threads as Next said.
  void Took(const PassTime& pass);

  ThreadReport report() const { return {most_, chosen_, changes_}; }

 private:
  // Passes of one kind, and of no other, by another number of threads.
  struct Trial {
    int kind = 0;
    uint32_t num_threads = 0;
    uint64_t num_done = 0;
    double seconds = 0;       // A row, summed over num_done passes.
    double cost = 0;          // Seconds that they took beyond what is usual.
    uint64_t num_others = 0;  // Passes of other kinds since the last of them.
  };

  // Passes of about as many rows: their times a row are comparable.
  static int KindOf(uint64_t num_rows);
  // Whether passes of the trial's kind come no more: a question was read, say, and is answered now.
  bool IsOver() const;
  bool IsTrial(uint64_t num_rows) const { return trial_ && trial_->kind == KindOf(num_rows); }
  void Note(const PassTime& pass);
  void MayTry(const PassTime& pass);
  void Judge(const PassTime& pass);

  const uint32_t most_;
  uint32_t chosen_;
  std::optional<Trial> trial_;
  // By kind: a moving mean of what passes took a row, with as many threads as are chosen.
  std::map<int, double> seconds_;
  double now_ = 0;  // Seconds of all passes.
  // By direction, fewer and more: no try before.
  double next_fewer_ = 0;
  double next_more_ = 0;
  uint64_t num_passes_ = 0;
  std::vector<ThreadChange> changes_;  // The last ones.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_THREAD_CHOICE_H_
