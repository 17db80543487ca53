// The cost of an Attend: counts, bytes, nanoseconds and estimated errors, summed over its parts.
//
// Threads: a value.
#ifndef ATTNDB_ATTENTION_CALL_COST_H_
#define ATTNDB_ATTENTION_CALL_COST_H_

#include <cstdint>

namespace attndb::attention {

struct CallCost {
  uint64_t num_selected = 0;    // Critical tokens, summed over rows and q heads.
  uint64_t num_queries = 0;     // Pairs of row and q head that selected tokens.
  uint64_t num_candidates = 0;  // Tokens that estimates chose and that were scored exactly.
  // Work of an index that does not score every key. Summed over rows and q heads: keys that it
  // scored. For all q heads together: clusters that it visited, and reads that waited for the one
  // before.
  uint64_t num_visited = 0;
  uint64_t num_clusters = 0;
  uint64_t num_hops = 0;
  // Searches by an index that scored every key, since that was less work.
  uint64_t num_full_scans = 0;
  // If an index draws: kept tokens, and an estimate of how many more a scan of all scores would
  // have kept.
  uint64_t num_kept = 0;
  uint64_t num_missed = 0;
  // A draw in two phases serves all q heads of a group at once, and is counted once: tokens weighed
  // by codes, tokens among these whose keys were read, and those whose values were read.
  uint64_t num_weighed = 0;
  uint64_t num_drawn_keys = 0;
  uint64_t num_drawn_values = 0;
  uint64_t bytes_touched = 0;
  int64_t score_ns = 0;
  int64_t select_ns = 0;
  int64_t attend_ns = 0;
  // Sums over rows that drew a sample, and the numbers of such rows: the estimated error of the
  // output, and the share of the mass that was not selected.
  double error_sum = 0;
  uint64_t num_errors = 0;
  double mass_left_sum = 0;
  uint64_t num_masses = 0;

  // Sums over rows whose plan has hard bounds (mass_bound.h), and their number: bounds of that
  // share and of the norm of the output's error; 0 for rows that fell back.
  double mass_bound_sum = 0;
  double out_bound_sum = 0;
  uint64_t num_bounds = 0;

  // num_fallbacks counts pairs of row and q head that attended to all tokens, because their bound
  // or their draw's error was too large, or that scored all tokens exactly, because estimates might
  // have missed a mass (mass_audit.h). num_redraws counts how often a group drew a row's sample
  // again, a larger one.
  uint64_t num_fallbacks = 0;
  uint64_t num_redraws = 0;

  // Rows that drew by planes add their estimated error times the number of tokens read.
  double difficulty_sum = 0;
  uint64_t num_difficulties = 0;
  // Rows that drew by codes add the error that they found over the standard deviation of their
  // weights' sum.
  double spread_sum = 0;
  uint64_t num_spreads = 0;

  // Adds one row and q head; both masses are in the same unit.
  void AddMassLeft(double left, double chosen) {
    mass_left_sum += left / (left + chosen);
    ++num_masses;
  }

  // Adds the bounds of one row and q head.
  void AddBound(double mass, double out) {
    mass_bound_sum += mass;
    out_bound_sum += out;
    ++num_bounds;
  }

  // Estimated share of the drawable mass that indexes left out, assuming equal weights of all drawn
  // tokens. -1: no index drew.
  double MissedShare() const {
    if (num_kept + num_missed == 0) return -1;
    return static_cast<double>(num_missed) / static_cast<double>(num_kept + num_missed);
  }

  // The next three add one row and q head that drew.
  void AddDraw(double error, double mass_left) {
    error_sum += error;
    ++num_errors;
    mass_left_sum += mass_left;
    ++num_masses;
  }
  void AddDifficulty(double difficulty) {
    difficulty_sum += difficulty;
    ++num_difficulties;
  }
  void AddSpread(double spread) {
    spread_sum += spread;
    ++num_spreads;
  }

  void Add(const CallCost& other) {
    num_selected += other.num_selected;
    num_queries += other.num_queries;
    num_candidates += other.num_candidates;
    num_visited += other.num_visited;
    num_clusters += other.num_clusters;
    num_hops += other.num_hops;
    num_full_scans += other.num_full_scans;
    num_kept += other.num_kept;
    num_missed += other.num_missed;
    num_weighed += other.num_weighed;
    num_drawn_keys += other.num_drawn_keys;
    num_drawn_values += other.num_drawn_values;
    bytes_touched += other.bytes_touched;
    score_ns += other.score_ns;
    select_ns += other.select_ns;
    attend_ns += other.attend_ns;
    error_sum += other.error_sum;
    num_errors += other.num_errors;
    mass_left_sum += other.mass_left_sum;
    num_masses += other.num_masses;
    mass_bound_sum += other.mass_bound_sum;
    out_bound_sum += other.out_bound_sum;
    num_bounds += other.num_bounds;
    num_fallbacks += other.num_fallbacks;
    num_redraws += other.num_redraws;
    difficulty_sum += other.difficulty_sum;
    num_difficulties += other.num_difficulties;
    spread_sum += other.spread_sum;
    num_spreads += other.num_spreads;
  }
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_CALL_COST_H_
