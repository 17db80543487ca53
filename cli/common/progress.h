// A progress line on a terminal that is redrawn in place:
//
//   prefill  [#########...........]  45 %  4,096 of 9,120 tokens  351 tokens/s  14 s left
//
// Nothing is written where stderr is no terminal, or with --quiet.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_PROGRESS_H_
#define ATTNDB_CLI_COMMON_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace attndb::cli {

// The content of a progress line.
struct ProgressState {
  std::string label;  // "prefill".
  std::string unit;   // "tokens"; "bytes" are shown as sizes.
  uint64_t done = 0;
  uint64_t total = 0;          // 0 = unknown: no bar, no time left.
  uint64_t done_at_start = 0;  // The amount that was done before: it does not count for the rate.
  double elapsed_seconds = 0;
};

// The line, at most `width` columns: the bar shrinks first, then parts go from the right.
std::string RenderProgress(const ProgressState& state, size_t width);

class ProgressLine {
 public:
  struct Options {
    std::string label;
    std::string unit;
    uint64_t done_at_start = 0;
    bool enabled = true;
    std::FILE* stream = nullptr;                // Null: stderr. Not owned.
    std::function<double()> seconds = nullptr;  // Monotonic clock; null: the system's.
    size_t width = 0;                           // 0: the terminal's.
  };

  explicit ProgressLine(Options options);
  ~ProgressLine();  // Clears the line.
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Redraws ten times a second at most, and at the end.
  void Update(uint64_t done, uint64_t total);
  // Takes the line away, so that other text can be written.
  void Clear();

  double elapsed_seconds() const;

 private:
  const Options options_;
  const double start_seconds_;
  double last_drawn_seconds_ = -1;
  bool visible_ = false;
};

// Columns of the terminal behind `stream`; 80 if it is none.
size_t TerminalWidth(std::FILE* stream);
// The width that a table on stdout may have: the terminal's; without one, any.
size_t StdoutWidth();
bool IsTerminal(std::FILE* stream);

// Seconds of the monotonic clock.
double MonotonicSeconds();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_PROGRESS_H_
