// Finds the stored passages that the model's own heads attend to for a question, over all contexts
// of a tenant, from their stored keys alone. No context is run again.
//
//   query.heads = {{8, 4}, {11, 0}};                       // which heads retrieve: see below
//   query.q = {q_of_8_4, q_of_11_0};                       // of the question, run by itself
//   ATTNDB_ASSIGN_OR_RETURN(const FindResult found, db.Find(spec, query));
//   for (const Passage& passage : found.passages) ...
//
// Passage: passage_tokens stored tokens of one segment; the next passage begins half as many tokens
//          further. Of overlapping passages only the best is reported. A segment that several
//          contexts share is searched once, and reported for the oldest context of the search.
// Score:   each token of the question has, per head, a largest q.k in each passage. Only the part
//          above a threshold counts for the passage: two standard deviations above the mean over
//          all passages (fewer deviations, if there are few passages). A head's score is the mean
//          of these parts over the tokens, in standard deviations of itself over all passages. The
//          passage's score is the mean over heads; an ordinary passage has 0. Scores depend on
//          everything that is stored: compare scores of one answer only. The first four tokens of a
//          context do not count, because all questions attend to them.
// Place:   the question is asked as if it stood directly behind each passage: RoPE rotates q from
//          first_position to there. If Rope::scaling is set, q is used as it is, so run the
//          question at positions as far on as contexts are long.
// Heads:   few heads look for the answer to a question. To find those of a model, try all heads on
//          questions with known passages (FindOptions::head_scores). attndb's llama.cpp adapter
//          does this itself (engines/llama/find_heads.h).
// Left:    tokens that have left a context (Session::DropOldest) are found like others: their keys
//          are stored.
// Threads: values.
#ifndef ATTNDB_FIND_H_
#define ATTNDB_FIND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attndb/tensor_view.h"
#include "attndb/types.h"

namespace attndb {

struct FindHead {
  LayerId layer = 0;
  uint32_t q_head = 0;
  friend bool operator==(const FindHead&, const FindHead&) = default;
};

struct FindQuery {
  std::vector<FindHead> heads;  // At least one, all different.
  // q of heads[i], [num_tokens, 1, head_dim], after RoPE in the spec's layout; the same tokens for
  // all heads.
  std::vector<TensorView> q;
  int64_t first_position = 0;  // Position of row 0 under RoPE; row i has first_position + i.
};

struct FindOptions {
  static constexpr uint32_t kMaxPassageTokens = 65536;

  uint32_t limit = 10;                // Passages to report; 0 = only skipped contexts.
  std::vector<std::string> contexts;  // Names or "#id"; empty = all of the tenant.
  uint32_t passage_tokens = 64;       // Even, 2 to kMaxPassageTokens.
  bool head_scores = false;           // Whether to fill Passage::head_scores.
};

struct Passage {
  std::string context;  // Its name, or "#id".
  ContextId context_id = ContextId::kNone;
  TokenRange tokens;  // Token indices of the context.
  double score = 0;
  std::vector<float> head_scores;  // By head of the query, if asked for; their mean is `score`.
};

struct SkippedContext {
  std::string context;
  std::string reason;  // In words: "of another model", "expired", "damaged: ...".
};

struct FindResult {
  std::vector<Passage> passages;        // Best first.
  std::vector<SkippedContext> skipped;  // Not searched, or not to their ends.
  uint64_t num_contexts = 0;            // Contexts that were searched.
  uint64_t num_tokens = 0;              // Tokens of these; shared ones count once.
  uint64_t num_passages = 0;            // Passages of these; overlapping ones count each.
  uint64_t key_bytes = 0;               // Bytes of keys that were read.
};

}  // namespace attndb

#endif  // ATTNDB_FIND_H_
